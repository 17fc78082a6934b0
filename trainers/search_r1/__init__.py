"""Search-R1 (arXiv 2503.09516) with the original's names: rollout loop, reward and trainer."""

from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.batch_ops import apply_kl_penalty, compute_advantage
from fathom.trainers.search_r1.generation import LLMGenerationManager
from fathom.trainers.search_r1.generation_config import GenerationConfig
from fathom.trainers.search_r1.reward import RewardManager, compute_score_em, em_check, extract_solution

__all__ = [
    "GenerationConfig",
    "LLMGenerationManager",
    "RayPPOTrainer",
    "RewardManager",
    "apply_kl_penalty",
    "compute_advantage",
    "compute_score_em",
    "em_check",
    "extract_solution",
]
