"""The formulas of advantages and losses, token by token in plain Python: what ``losses`` is compared with.

Shapes: B rows of T numbers as lists; ``mask`` 1.0 on trained tokens. Written from the papers' formulas, sharing no
line with the trainers.
"""

from __future__ import annotations

import math

Grid = list[list[float]]


def whiten(values: Grid, mask: Grid) -> Grid:
    """Return (x - mean) / sqrt(unbiased variance + 1e-8) over the mask, 0 off it."""
    kept = [
        value for row, marks in zip(values, mask, strict=True) for value, mark in zip(row, marks, strict=True) if mark
    ]
    mean = sum(kept) / len(kept)
    variance = sum((value - mean) ** 2 for value in kept) / (len(kept) - 1)
    scale = 1.0 / math.sqrt(variance + 1e-8)
    return [
        [(value - mean) * scale if mark else 0.0 for value, mark in zip(row, marks, strict=True)]
        for row, marks in zip(values, mask, strict=True)
    ]


def gae(rewards: Grid, values: Grid, mask: Grid, gamma: float, lam: float) -> tuple[Grid, Grid]:
    """delta = r + gamma V' - V, A = delta + gamma lam A', V' and A' of the next model token."""
    advantages, returns = [], []
    for reward, value, marks in zip(rewards, values, mask, strict=True):
        row, back, following, carried = [0.0] * len(marks), [0.0] * len(marks), 0.0, 0.0
        for t in range(len(marks) - 1, -1, -1):
            if not marks[t]:
                continue
            carried = reward[t] + gamma * following - value[t] + gamma * lam * carried
            following = value[t]
            row[t], back[t] = carried, carried + value[t]
        advantages.append(row)
        returns.append(back)
    return whiten(advantages, mask), returns


def over_tokens(numbers: list[float], mask: Grid) -> Grid:
    return [[number if mark else 0.0 for mark in marks] for number, marks in zip(numbers, mask, strict=True)]


def outcomes(rewards: Grid) -> list[float]:
    return [sum(row) for row in rewards]


def grpo(rewards: Grid, mask: Grid, samples: int) -> Grid:
    """(R - mean) / (unbiased deviation + 1e-6) in each group."""
    scores, found = outcomes(rewards), []
    for start in range(0, len(scores), samples):
        group = scores[start : start + samples]
        mean = sum(group) / samples
        deviation = math.sqrt(sum((score - mean) ** 2 for score in group) / (samples - 1))
        found += [(score - mean) / (deviation + 1e-6) for score in group]
    return over_tokens(found, mask)


def rloo(rewards: Grid, mask: Grid, samples: int) -> Grid:
    """R minus the mean of the others."""
    scores, found = outcomes(rewards), []
    for start in range(0, len(scores), samples):
        group = scores[start : start + samples]
        found += [score - (sum(group) - score) / (samples - 1) for score in group]
    return over_tokens(found, mask)


def policy_loss(
    log_probs: Grid, old: Grid, advantages: Grid, mask: Grid, clip_low: float, clip_high: float, dual_clip: float
) -> tuple[float, float, float, float]:
    """The mean over tokens of PPO's clipped terms; fractions that either bound cut; the mean of l_old - l."""
    total = clipped = lower = divergence = 0.0
    tokens = 0
    for row, marks in enumerate(mask):
        for t, mark in enumerate(marks):
            if not mark:
                continue
            tokens += 1
            apart = max(-20.0, min(20.0, log_probs[row][t] - old[row][t]))
            ratio, advantage = math.exp(apart), advantages[row][t]
            plain = -advantage * ratio
            bounded = -advantage * max(1.0 - clip_low, min(1.0 + clip_high, ratio))
            term = max(plain, bounded)
            if advantage < 0:
                lower += term > -advantage * dual_clip
                term = min(term, -advantage * dual_clip)
            total += term
            clipped += bounded > plain
            divergence -= apart
    return total / tokens, clipped / tokens, lower / tokens, divergence / tokens


def value_loss(values: Grid, old: Grid, returns: Grid, mask: Grid, clip: float) -> tuple[float, float, float]:
    """0.5 max((V - R)^2, (clipped V - R)^2); the fraction that was clipped; 1 - var(R - V) / (var R + 1e-5)."""
    total = clipped = 0.0
    residuals, targets = [], []
    for row, marks in enumerate(mask):
        for t, mark in enumerate(marks):
            if not mark:
                continue
            value, target = values[row][t], returns[row][t]
            bounded = max(old[row][t] - clip, min(old[row][t] + clip, value))
            plain, cut = (value - target) ** 2, (bounded - target) ** 2
            total += 0.5 * max(plain, cut)
            clipped += cut > plain
            residuals.append(target - value)
            targets.append(target)
    explained = 1.0 - spread(residuals) / (spread(targets) + 1e-5)
    return total / len(targets), clipped / len(targets), explained


def spread(numbers: list[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return sum((number - mean) ** 2 for number in numbers) / len(numbers)


def kl_loss(log_probs: Grid, reference: Grid, mask: Grid) -> float:
    """The mean over tokens of k3 = exp(d) - d - 1, d = l0 - l."""
    total, tokens = 0.0, 0
    for row, marks in enumerate(mask):
        for t, mark in enumerate(marks):
            if mark:
                d = max(-20.0, min(20.0, reference[row][t] - log_probs[row][t]))
                total += max(-10.0, min(10.0, math.exp(d) - d - 1.0))
                tokens += 1
    return total / tokens


def penalise(scores: Grid, old: Grid, reference: Grid, mask: Grid, weight: float) -> tuple[Grid, float]:
    """Return r = score - weight (l - l0) on the mask, and the mean over rows of each row's mean of l - l0."""
    found, means = [], []
    for row, marks in enumerate(mask):
        terms = [old[row][t] - reference[row][t] if mark else 0.0 for t, mark in enumerate(marks)]
        found.append([scores[row][t] - weight * terms[t] if mark else 0.0 for t, mark in enumerate(marks)])
        means.append(sum(terms) / sum(marks))
    return found, sum(means) / len(means)


def last(marks: list[float]) -> int:
    return max(t for t, mark in enumerate(marks) if mark)


def prime_scores(q: Grid, mask: Grid, beta: float, lam: float) -> Grid:
    """r = beta q + lam r' on model tokens, 0 on the last; divided by the largest |sum from a token on| + 1e-6."""
    scores, largest = [], 0.0
    for row, marks in zip(q, mask, strict=True):
        found, carried = [0.0] * len(row), 0.0
        for t in range(len(row) - 1, -1, -1):
            if marks[t]:
                carried = beta * row[t] + lam * carried
                found[t] = carried
        found[last(marks)] = 0.0
        suffix = 0.0
        for t in range(len(row) - 1, -1, -1):
            suffix += found[t]
            largest = max(largest, abs(suffix))
        scores.append(found)
    return [[score / (largest + 1e-6) for score in row] for row in scores]


def prime_fusion(
    process: Grid, acc: list[float], mask: Grid, samples: int, process_weight: float, outcome_weight: float
) -> tuple[Grid, Grid]:
    """Leave-one-out of each source, summed with weights; sums from each token on, and these whitened."""
    returns = []
    means = [sum(row) / sum(marks) for row, marks in zip(process, mask, strict=True)]
    for row, marks in enumerate(mask):
        start = row - row % samples
        members = range(start, start + samples)
        scale = samples / (samples - 1)
        base = sum(means[other] for other in members) / samples
        outcome = scale * (acc[row] - sum(acc[other] for other in members) / samples)
        end, carried, back = last(marks), 0.0, [0.0] * len(marks)
        for t in range(len(marks) - 1, -1, -1):
            if marks[t]:
                carried += process_weight * scale * (process[row][t] - base)
                carried += outcome_weight * outcome if t == end else 0.0
                back[t] = carried
        returns.append(back)
    return whiten(returns, mask), returns


def softplus(number: float) -> float:
    return max(number, 0.0) + math.log1p(math.exp(-abs(number)))


def row_scores(q: Grid, mask: Grid) -> list[float]:
    return [sum(x for x, mark in zip(row, marks, strict=True) if mark) for row, marks in zip(q, mask, strict=True)]


def cross_entropy(q: Grid, mask: Grid, acc: list[float], beta: float) -> float:
    """The mean of -a log sigmoid(z) - (1 - a) log(1 - sigmoid(z)), z = beta times the row's sum of q."""
    terms = []
    for total, outcome in zip(row_scores(q, mask), acc, strict=True):
        terms.append(outcome * softplus(-beta * total) + (1.0 - outcome) * softplus(beta * total))
    return sum(terms) / len(terms)


def detached_dpo(q: Grid, mask: Grid, acc: list[float], samples: int, beta: float, mode: str) -> float:
    """Each row against the mean of its group's rows with the opposite outcome, weighted by its rank for bon_*."""
    scores, terms = row_scores(q, mask), []
    for row, score in enumerate(scores):
        start = row - row % samples
        members = range(start, start + samples)
        right = acc[row] > 0
        opposite = [scores[j] for j in members if (acc[j] < acc[row] if right else acc[j] > acc[row])]
        against = beta * sum(opposite) / len(opposite) if opposite else 0.0
        term = softplus(-(beta * score - against) * (1.0 if right else -1.0))
        ranked = acc if mode == "bon_acc" else scores
        share = sum(ranked[j] <= ranked[row] for j in members) / samples
        terms.append(term * (samples * share ** (samples - 1) if mode != "none" else 1.0))
    return sum(terms) / len(terms)
