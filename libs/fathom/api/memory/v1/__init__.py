"""Generated from protos/ by protos/contract.py; do not edit."""
