#!/bin/sh
# Search-R1's PPO, from settings to checkpoint, in four stages:
#   1. configure: config/ppo.yaml, then --config files, then section.field=value
#   2. create agent and parts: tokenizer, actor, critic, reference, rollouts, reward
#   3. the PPO loop: episodes, rewards, advantages, updates, weights into service
#   4. validate, save and report
# The services are the running stack's, or a stack is started for the time of the training.
#
#   train_ppo.sh model.path=… data.train_files='[nq/train.parquet]' data.val_files='[nq/test.parquet]'
set -eu
exec "${PYTHON:-python}" -m fathom.cli.main train search_r1 "$@"
