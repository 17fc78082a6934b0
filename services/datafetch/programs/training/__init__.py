"""Training of the reader's weights from examples; needs PyTorch, which the service never imports."""
