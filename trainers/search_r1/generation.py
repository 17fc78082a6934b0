"""Search-R1's rollout loop (arXiv 2503.09516): generate, parse the action, search, repeat.

No gym: the environment is a retrieval service plus a two-tag action protocol. Actions are search and answer; the state
is the prompt followed by everything generated and retrieved so far; the reward is exact match of the answer
(``fathom.trainers.search_r1.reward``). Production rollouts come from the planner service, which plays the same
protocol; this loop serves workers that generate tokens themselves, and comparison with the original.

Names, order, truncation points and statistics are the original's. Deviations that fix its defects:

* masks are explicit, never derived from ids, because pad may equal eos;
* sampled ids are trained exactly as sampled, up to the token that closes the tag; ``parity_retokenise`` instead
  retokenises the truncated text, which drops eos and can produce ids that were never sampled;
* observations are truncated per row before padding and keep their closing tag;
* a search that still fails after bounded attempts becomes an observation instead of aborting the step;
* sampling parameters are passed to the worker, so that validation can decode greedily.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fathom.core.errors import FathomError, InvalidField, is_retryable
from fathom.domain.chat.encoding import ContentEncoder
from fathom.domain.chat.quoting import neutral
from fathom.domain.chat.tags import (
    ACTION,
    CLOSING,
    cut_after_action,
    information_block,
    parse_action,
)
from fathom.trainers.batch import DataProto
from fathom.trainers.search_r1.generation_config import GenerationConfig, RolloutWorker
from fathom.trainers.search_r1.search import SearchClient, failure_text
from fathom.trainers.search_r1.statistics import Statistics
from fathom.trainers.search_r1.tokens import Tokens, fewest_ids, most_ids

LOG = logging.getLogger(__name__)


class LLMGenerationManager:
    """Plays a batch of episodes turn by turn, with one rollout worker and one retrieval server."""

    def __init__(
        self, tokenizer: Any, actor_rollout_wg: RolloutWorker, config: GenerationConfig, is_validation: bool = False
    ) -> None:
        """Configure the loop.

        ``is_validation`` is passed to the worker in ``meta_info["validate"]``. Raises ``InvalidField`` for a tokenizer
        without a pad token.
        """
        if tokenizer.pad_token_id is None:
            raise InvalidField("tokenizer.pad_token", "is missing")
        self.tokenizer, self.actor_rollout_wg, self.config = tokenizer, actor_rollout_wg, config
        self.is_validation = is_validation
        self._contents = ContentEncoder(tokenizer)
        self.pad = int(tokenizer.pad_token_id)
        self.search_failures = 0
        self._search: SearchClient | None = None

    # The loop.

    def run_llm_loop(self, gen_batch: DataProto, initial_input_ids: Tensor) -> DataProto:
        """Play episodes for left-padded prompts [B, P]; ``gen_batch`` has their ``attention_mask``.

        Makes at most ``max_turns`` turns with searches, then one without for rows that have not answered. Returns
        ``prompts`` (the last ``max_start_length`` tokens), ``responses``, ``responses_with_info_mask``, ``input_ids``,
        ``attention_mask``, ``info_mask`` [B, S], ``position_ids``, ``response_mask`` [B, T], ``rollout_log_probs``
        unless ids were altered (``parity_retokenise``, ``no_think_rl``), and per-row statistics in ``meta_info``.
        """
        start = Tokens.of(initial_input_ids, gen_batch.tensor("attention_mask"))
        left, right = start.last(self.config.max_start_length), Tokens.empty(len(initial_input_ids))
        rolling, stats = start, Statistics(torch.ones(len(initial_input_ids), dtype=torch.bool))
        for turn in range(self.config.max_turns + 1):
            if not bool(stats.active.any()):
                break
            last = turn == self.config.max_turns
            # Columns that are padding in every row are cut each turn: attention pays for them, too.
            rolling = rolling.last(max(1, rolling.longest))
            responses, texts = self._turn(rolling, stats.active, gen_batch.meta_info, turn)
            next_obs, dones, valid, searched = self.execute_predictions(
                texts, self.tokenizer.pad_token, stats.active.tolist(), do_search=not last
            )
            stats.add(dones, valid, searched, last)
            # After the last turn nothing is read any more: an observation would be tokens without an answer to them.
            if last:
                right = self._update_right_side(right, responses)
            else:
                observations = self._process_next_obs(next_obs)
                rolling = self._update_rolling_state(rolling, responses, observations)
                right = self._update_right_side(right, responses, observations)
        LOG.debug("active rows per turn: %s", stats.active_counts)
        return self._compose_final_output(left, right, gen_batch.meta_info | stats.meta())

    def _turn(self, rolling: Tokens, active: Tensor, meta: dict[str, Any], turn: int) -> tuple[Tokens, list[str]]:
        """Generate for the active rows, truncated after their action; other rows get empty responses."""
        chosen = rolling.rows(active)
        asked = DataProto(
            {"input_ids": chosen.ids, "attention_mask": chosen.mask, "position_ids": chosen.position_ids},
            meta_info=meta
            | {"max_tokens": self.config.max_response_length, "turn": turn, "validate": self.is_validation},
        )
        output = self._generate_with_gpu_padding(asked)
        responses, texts = self._postprocess_responses(self._response_tokens(output))
        # Rows that have ended keep their place: results are matched by position throughout the loop.
        every = [""] * len(active)
        for place, text in zip(active.nonzero().flatten().tolist(), texts, strict=True):
            every[place] = text
        return responses.scatter(active, self.pad), every

    def _generate_with_gpu_padding(self, active_batch: DataProto) -> DataProto:
        """Generate with the batch padded to a multiple of ``num_gpus``.

        Padding rows are copies of the first row; their outputs are dropped.
        """
        count = len(active_batch)
        missing = -count % self.config.num_gpus
        if not missing:
            return self.actor_rollout_wg.generate_sequences(active_batch)
        padded = active_batch[torch.cat([torch.arange(count), torch.zeros(missing, dtype=torch.int64)])]
        return self.actor_rollout_wg.generate_sequences(padded)[:count]

    def _response_tokens(self, output: DataProto) -> Tokens:
        """Return a worker's responses with their mask.

        Without a ``response_mask``, everything up to and including the first eos, or before the first pad, counts as
        sampled.
        """
        ids = output.tensor("responses")
        if "response_mask" in output:
            mask = output.tensor("response_mask")
        else:
            ended = (ids == self.tokenizer.eos_token_id).int()
            mask = ((ended.cumsum(dim=1) - ended) == 0) & ((ids != self.pad) | ended.bool())
        return Tokens.of(ids, mask, mask, output.batch.get("rollout_log_probs"))

    # From tokens to text and back.

    def _batch_tokenize(self, responses: Sequence[str]) -> Tokens:
        """Tokenise texts to right-padded ids without special tokens."""
        rows = [self.tokenizer.encode(text, add_special_tokens=False) if text else [] for text in responses]
        return Tokens.from_rows(rows, self.pad)

    def _postprocess_responses(self, responses: Tokens) -> tuple[Tokens, list[str]]:
        """Truncate each text after its first closing search tag, else after its first closing answer tag.

        Returns the ids and the texts. The ids are the sampled ones up to the one that completes the tag. With
        ``no_think_rl`` a row keeps only its action: the ids from the opening tag on.
        """
        texts, kept = [], []
        for row, mask in zip(responses.ids, responses.mask, strict=True):
            ids = row[mask.bool()].tolist()
            text = cut_after_action(self._decode(ids))
            start, stop = 0, len(ids)
            if text.endswith(CLOSING):
                stop = fewest_ids(self._decode, ids, len(text))
            action = ACTION.search(text)
            if self.config.no_think_rl and action is not None:
                start, text = most_ids(self._decode, ids, action.start()), action.group()
            kept.append((start, stop))
            texts.append(text)
        if self.config.parity_retokenise:
            again = self._batch_tokenize(texts)
            return Tokens.of(again.ids, again.mask, again.mask), texts
        return responses.spans(kept, self.pad), texts

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    # The environment.

    def execute_predictions(
        self,
        predictions: Sequence[str],
        pad_token: str,
        active_mask: Sequence[bool] | None = None,
        do_search: bool = True,
    ) -> tuple[list[str], list[int], list[int], list[int]]:
        """Run the environment on one prediction per row; without a mask all rows are active.

        Returns (next observations, dones, valid actions, searches), one entry per row: inactive ("", 1, 0, 0); answer
        ("", 1, 1, 0); search (information block, 0, 1, 1); invalid (corrective text, 0, 0, 0). All searches of the
        batch are one request; without ``do_search`` their results are empty.
        """
        active = [True] * len(predictions) if active_mask is None else [bool(item) for item in active_mask]
        actions, contents = self.postprocess_predictions(predictions)
        queries = [
            content for action, content, on in zip(actions, contents, active, strict=True) if on and action == "search"
        ]
        results = self.batch_search(queries) if do_search else [""] * len(queries)
        # Consumed in the order of the queries, that is of the rows that search; a leftover or a lack would be a shift.
        waiting = iter(results)
        rows = [self._outcome(action, on, waiting) for action, on in zip(actions, active, strict=True)]
        left_over = list(waiting)
        if left_over:
            raise AssertionError(f"{len(left_over)} search results belong to no row")
        next_obs, dones, valid, searched = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 4
        return next_obs, dones, valid, searched

    def _outcome(self, action: str | None, active: bool, results: Any) -> tuple[str, int, int, int]:
        if not active:
            return "", 1, 0, 0
        if action == "answer":
            return "", 1, 1, 0
        if action == "search":
            return information_block(next(results)), 0, 1, 1
        return self.config.invalid_action, 0, 0, 0

    def postprocess_predictions(self, predictions: Sequence[Any]) -> tuple[list[str | None], list[str]]:
        """Parse predictions into (actions, contents): the first well-formed pair of tags and its stripped content.

        Rows without one get None and "". Raises ``InvalidField`` for a prediction that is not text.
        """
        for row, text in enumerate(predictions):
            if not isinstance(text, str):
                raise InvalidField(f"predictions[{row}]", f"is {type(text).__name__}, not text")
        found = [parse_action(text) for text in predictions]
        return [action.kind for action in found], [action.content for action in found]

    def batch_search(self, queries: Sequence[str]) -> list[str]:
        """Search all queries and return one text per query for the model to read.

        An unreachable server (a retryable error) yields a failure text for each query; any other error is raised.
        """
        if not queries:
            return []
        try:
            found = self._batch_search(queries)
        except FathomError as error:
            # A rejected request would be rejected in every step: it is an error of the settings, not weather.
            if not is_retryable(error):
                raise
            self.search_failures += len(queries)
            LOG.warning("a search of %d queries failed: %s", len(queries), error)
            return [failure_text(error)] * len(queries)
        return [self._passages2string(items) for items in found["result"]]

    def _batch_search(self, queries: Sequence[str]) -> dict[str, list[list[dict[str, Any]]]]:
        """Post {queries, topk, return_scores: true} to ``search_url``; raises what ``SearchClient.results`` raises."""
        if self._search is None:
            config = self.config
            self._search = SearchClient(config.search_url or "", config.topk, timeout_s=config.search_timeout_s)
        return {"result": self._search.results(queries)}

    def _passages2string(self, retrieval_result: Sequence[dict[str, Any]]) -> str:
        """Format documents as a numbered list of title (first line of the contents) and text (the rest)."""
        parts = []
        for number, item in enumerate(retrieval_result, start=1):
            title, _, text = item["document"]["contents"].partition("\n")
            # Protocol tags inside a document are neutralised, so that quoted text cannot act as an action.
            parts.append(f"Doc {number}(Title: {neutral(title)}) {neutral(text)}\n")
        return "".join(parts)

    # What the model sees next, and what is trained.

    def _process_next_obs(self, next_obs: Sequence[str]) -> Tokens:
        """Tokenise observations, each truncated to ``max_obs_length`` tokens; truncation keeps the closing tag."""
        # A document's words are text, whatever the model's special tokens are.
        found = Tokens.from_rows([self._contents.encode_content(text) for text in next_obs], self.pad)
        if found.width <= self.config.max_obs_length:
            return found
        LOG.warning("an observation of %d tokens is cut to %d", found.width, self.config.max_obs_length)
        limit, rows = self.config.max_obs_length, []
        closing = self._contents.encode_content("</information>\n\n")
        for text, ids, mask in zip(next_obs, found.ids, found.mask, strict=True):
            row = ids[mask.bool()].tolist()
            if len(row) > limit and "</information>" in text and len(closing) < limit:
                row = [*row[: limit - len(closing)], *closing]
            rows.append(row[:limit])
        return Tokens.from_rows(rows, self.pad)

    def _update_rolling_state(self, rollings: Tokens, cur_responses: Tokens, next_obs_ids: Tokens) -> Tokens:
        """Append responses and observations to the model's input.

        Returns the last ``max_prompt_length`` tokens, left-padded.
        """
        joined = rollings.concat(cur_responses, next_obs_ids).pack(left=True)
        return joined.last(min(self.config.max_prompt_length, joined.longest))

    def _update_right_side(
        self, right_side: Tokens, cur_responses: Tokens, next_obs_ids: Tokens | None = None
    ) -> Tokens:
        """Append to the tokens after the prompt: the first ``max_prompt_length`` of them, right-padded."""
        parts = [cur_responses] if next_obs_ids is None else [cur_responses, next_obs_ids]
        joined = right_side.concat(*parts).pack()
        return joined.first(min(self.config.max_prompt_length, joined.longest))

    def _compose_final_output(self, left_side: Tokens, right_side: Tokens, meta_info: dict[str, Any]) -> DataProto:
        """Assemble the episodes in the layout of ``DataProto``."""
        whole = left_side.concat(right_side)
        tensors = {
            "prompts": left_side.ids,
            "responses": torch.where(right_side.mask.bool(), right_side.ids, self.pad),
            "responses_with_info_mask": right_side.info_masked(self.pad),
            "input_ids": whole.ids,
            "attention_mask": whole.mask,
            "info_mask": torch.cat([left_side.mask, right_side.sampled], dim=1),
            "position_ids": whole.position_ids,
            "response_mask": right_side.sampled,
        }
        # Both options change the ids, so the sampled log-probabilities no longer belong to them.
        if not (self.config.parity_retokenise or self.config.no_think_rl):
            tensors["rollout_log_probs"] = right_side.log_probs
        return DataProto(tensors, meta_info=meta_info)
