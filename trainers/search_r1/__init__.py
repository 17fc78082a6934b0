"""Search-R1 (arXiv 2503.09516) with the original's names: rollout loop, reward and trainer."""

from trainers.ppo import RayPPOTrainer
from trainers.search_r1.generation import LLMGenerationManager
from trainers.search_r1.generation_config import GenerationConfig
from trainers.search_r1.reward import RewardManager, compute_score_em, em_check, extract_solution
from trainers.steps import apply_kl_penalty, compute_advantage

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
