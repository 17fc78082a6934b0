"""Typed clients: one class per service, one declaration per RPC."""

from __future__ import annotations

from operator import methodcaller

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.memory.v1 import review_pb2 as review
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients.client import Client, ClientStream, ServerStream, Unary


class DatafetchClient(Client):
    """Client of ``fathom.api.datafetch.v1.DatafetchService``."""

    service = "datafetch"
    query = Unary[datafetch.QueryRequest, datafetch.QueryResponse]()
    get_table = ServerStream[datafetch.GetTableRequest, datafetch.GetTableResponse]()
    get_sheet = Unary[datafetch.GetSheetRequest, datafetch.GetSheetResponse]()
    run_sql = Unary[datafetch.RunSqlRequest, datafetch.RunSqlResponse]()
    export_table = Unary[datafetch.ExportTableRequest, datafetch.ExportTableResponse]()
    import_table = Unary[datafetch.ImportTableRequest, datafetch.ImportTableResponse]()
    propose_meaning = Unary[datafetch.ProposeMeaningRequest, datafetch.ProposeMeaningResponse]()
    apply_meaning = Unary[datafetch.ApplyMeaningRequest, datafetch.ApplyMeaningResponse]()
    resolve_entities = Unary[datafetch.ResolveEntitiesRequest, datafetch.ResolveEntitiesResponse]()
    match_indicators = Unary[datafetch.MatchIndicatorsRequest, datafetch.MatchIndicatorsResponse]()
    search_catalog = Unary[datafetch.SearchCatalogRequest, datafetch.SearchCatalogResponse]()
    list_sources = Unary[datafetch.ListSourcesRequest, datafetch.ListSourcesResponse]()
    list_connectors = Unary[datafetch.ListConnectorsRequest, datafetch.ListConnectorsResponse]()
    probe_connector = Unary[datafetch.ProbeConnectorRequest, datafetch.ProbeConnectorResponse]()
    list_frameworks = Unary[datafetch.ListFrameworksRequest, datafetch.ListFrameworksResponse]()
    get_framework_file = Unary[datafetch.GetFrameworkFileRequest, datafetch.GetFrameworkFileResponse]()
    check_framework = Unary[datafetch.CheckFrameworkRequest, datafetch.CheckFrameworkResponse]()
    read_question = Unary[datafetch.ReadQuestionRequest, datafetch.ReadQuestionResponse]()
    encode_texts = Unary[datafetch.EncodeTextsRequest, datafetch.EncodeTextsResponse]()


class MemoryClient(Client):
    """Client of ``fathom.api.memory.v1.MemoryService``."""

    service = "memory"
    append_turn = Unary[memory.AppendTurnRequest, memory.AppendTurnResponse]()
    get_window = Unary[memory.GetWindowRequest, memory.GetWindowResponse]()
    list_turns = Unary[memory.ListTurnsRequest, memory.ListTurnsResponse]()
    list_conversations = Unary[memory.ListConversationsRequest, memory.ListConversationsResponse]()
    update_conversation = Unary[memory.UpdateConversationRequest, memory.UpdateConversationResponse]()
    delete_conversation = Unary[memory.DeleteConversationRequest, memory.DeleteConversationResponse]()
    search_memory = Unary[memory.SearchMemoryRequest, memory.SearchMemoryResponse]()
    list_facts = Unary[memory.ListFactsRequest, memory.ListFactsResponse]()
    put_fact = Unary[memory.PutFactRequest, memory.PutFactResponse]()
    delete_fact = Unary[memory.DeleteFactRequest, memory.DeleteFactResponse]()
    record_stance = Unary[memory.RecordStanceRequest, memory.RecordStanceResponse]()
    list_stances = Unary[memory.ListStancesRequest, memory.ListStancesResponse]()
    delete_stance = Unary[memory.DeleteStanceRequest, memory.DeleteStanceResponse]()
    record_feedback = Unary[memory.RecordFeedbackRequest, memory.RecordFeedbackResponse]()
    list_feedback = Unary[memory.ListFeedbackRequest, memory.ListFeedbackResponse]()
    export_memory = Unary[memory.ExportMemoryRequest, memory.ExportMemoryResponse]()
    erase_memory = Unary[memory.EraseMemoryRequest, memory.EraseMemoryResponse]()
    add_review_items = Unary[review.AddReviewItemsRequest, review.AddReviewItemsResponse]()
    list_review_queues = Unary[review.ListReviewQueuesRequest, review.ListReviewQueuesResponse]()
    claim_review_item = Unary[review.ClaimReviewItemRequest, review.ClaimReviewItemResponse]()
    decide_review_item = Unary[review.DecideReviewItemRequest, review.DecideReviewItemResponse]()
    undo_review_decision = Unary[review.UndoReviewDecisionRequest, review.UndoReviewDecisionResponse]()
    list_review_decisions = Unary[review.ListReviewDecisionsRequest, review.ListReviewDecisionsResponse]()


class PlannerClient(Client):
    """Client of ``fathom.api.planner.v1.PlannerService``."""

    service = "planner"
    run = ServerStream[planner.RunRequest, planner.RunResponse]()
    watch_run = ServerStream[planner.WatchRunRequest, planner.WatchRunResponse]()
    stop_run = Unary[planner.StopRunRequest, planner.StopRunResponse]()
    resume_run = ServerStream[planner.ResumeRunRequest, planner.ResumeRunResponse]()
    replay_run = Unary[planner.ReplayRunRequest, planner.ReplayRunResponse]()
    branch_run = Unary[planner.BranchRunRequest, planner.BranchRunResponse]()
    get_run = Unary[planner.GetRunRequest, planner.GetRunResponse]()
    list_runs = Unary[planner.ListRunsRequest, planner.ListRunsResponse]()
    set_consent = Unary[planner.SetConsentRequest, planner.SetConsentResponse]()
    get_consent = Unary[planner.GetConsentRequest, planner.GetConsentResponse]()
    update_todo = Unary[planner.UpdateTodoRequest, planner.UpdateTodoResponse]()
    route_question = Unary[planner.RouteQuestionRequest, planner.RouteQuestionResponse]()
    list_tool_servers = Unary[planner.ListToolServersRequest, planner.ListToolServersResponse]()
    probe_tool_server = Unary[planner.ProbeToolServerRequest, planner.ProbeToolServerResponse]()
    list_tools = Unary[planner.ListToolsRequest, planner.ListToolsResponse]()
    list_prompts = Unary[planner.ListPromptsRequest, planner.ListPromptsResponse]()
    rollout = ServerStream[planner.RolloutRequest, planner.RolloutResponse]()
    submit_rollout = Unary[planner.SubmitRolloutRequest, planner.SubmitRolloutResponse]()
    watch_rollout = ServerStream[planner.WatchRolloutRequest, planner.WatchRolloutResponse]()
    stop_rollout = Unary[planner.StopRolloutRequest, planner.StopRolloutResponse]()


class PolicyClient(Client):
    """Client of ``fathom.api.policy.v1.PolicyService``."""

    service = "policy"
    generate = ServerStream[policy.GenerateRequest, policy.GenerateResponse](methodcaller("HasField", "wait"))
    score_tokens = Unary[policy.ScoreTokensRequest, policy.ScoreTokensResponse]()
    get_model = Unary[policy.GetModelRequest, policy.GetModelResponse]()
    list_models = Unary[policy.ListModelsRequest, policy.ListModelsResponse]()
    load_weights = Unary[policy.LoadWeightsRequest, policy.LoadWeightsResponse]()
    pause_generation = Unary[policy.PauseGenerationRequest, policy.PauseGenerationResponse]()
    resume_generation = Unary[policy.ResumeGenerationRequest, policy.ResumeGenerationResponse]()
    tokenize = Unary[policy.TokenizeRequest, policy.TokenizeResponse]()
    detokenize = Unary[policy.DetokenizeRequest, policy.DetokenizeResponse]()


class RetrievalClient(Client):
    """Client of ``fathom.api.retrieval.v1.RetrievalService``."""

    service = "retrieval"
    search = Unary[retrieval.SearchRequest, retrieval.SearchResponse]()
    fetch = Unary[retrieval.FetchRequest, retrieval.FetchResponse]()
    ingest = ClientStream[retrieval.IngestRequest, retrieval.IngestResponse]()
    import_document = Unary[retrieval.ImportDocumentRequest, retrieval.ImportDocumentResponse]()
    delete_document = Unary[retrieval.DeleteDocumentRequest, retrieval.DeleteDocumentResponse]()
    list_corpora = Unary[retrieval.ListCorporaRequest, retrieval.ListCorporaResponse]()
    list_snapshots = Unary[retrieval.ListSnapshotsRequest, retrieval.ListSnapshotsResponse]()
    create_snapshot = Unary[retrieval.CreateSnapshotRequest, retrieval.CreateSnapshotResponse]()
    activate_snapshot = Unary[retrieval.ActivateSnapshotRequest, retrieval.ActivateSnapshotResponse]()


class RewardClient(Client):
    """Client of ``fathom.api.reward.v1.RewardService``."""

    service = "reward"
    score = Unary[reward.ScoreRequest, reward.ScoreResponse]()
    list_graders = Unary[reward.ListGradersRequest, reward.ListGradersResponse]()
    judge_pairs = Unary[reward.JudgePairsRequest, reward.JudgePairsResponse]()
    score_process = Unary[reward.ScoreProcessRequest, reward.ScoreProcessResponse]()
    update_model = Unary[reward.UpdateModelRequest, reward.UpdateModelResponse]()


class SandboxClient(Client):
    """Client of ``fathom.api.sandbox.v1.SandboxService``."""

    service = "sandbox"
    create_session = Unary[sandbox.CreateSessionRequest, sandbox.CreateSessionResponse]()
    put_frame = Unary[sandbox.PutFrameRequest, sandbox.PutFrameResponse]()
    execute = ServerStream[sandbox.ExecuteRequest, sandbox.ExecuteResponse]()
    list_variables = Unary[sandbox.ListVariablesRequest, sandbox.ListVariablesResponse]()
    interrupt = Unary[sandbox.InterruptRequest, sandbox.InterruptResponse]()
    restart = Unary[sandbox.RestartRequest, sandbox.RestartResponse]()
    close_session = Unary[sandbox.CloseSessionRequest, sandbox.CloseSessionResponse]()
    put_file = Unary[sandbox.PutFileRequest, sandbox.PutFileResponse]()
    get_file = ServerStream[sandbox.GetFileRequest, sandbox.GetFileResponse]()
    list_files = Unary[sandbox.ListFilesRequest, sandbox.ListFilesResponse]()
    get_isolation = Unary[sandbox.GetIsolationRequest, sandbox.GetIsolationResponse]()
