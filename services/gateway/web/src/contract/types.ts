// Names for the shapes that the gateway's OpenAPI document defines; deploy/web.py makes generated/schema.ts of it, so
// that a change of the contract that the page does not follow fails `make types`.
import type { components } from "../../generated/schema";

type Schemas = components["schemas"];

export type Accepted = Schemas["Accepted"];
export type Judgement = Schemas["Judgement"];
export type RunChanges = Schemas["RunChanges"];
export type Schedule = Schemas["ScheduleState"];
export type ScheduleList = Schemas["ScheduleList"];
export type CellResult = Schemas["CellResult"];
export type Link = Schemas["LinkState"];
export type LinkPage = Schemas["LinkPage"];
export type MadeLink = Schemas["MadeLink"];
export type NamedEntity = Schemas["NamedEntity"];
export type EntityList = Schemas["EntityList"];
export type TablePage = Schemas["TablePage"];
export type Missing = Schemas["fathom.api.common.v1.MissingItem"];
export type Usage = Schemas["fathom.api.common.v1.Usage"];
export type Framework = Schemas["fathom.api.datafetch.v1.Framework"];
export type FrameworkNode = Schemas["fathom.api.datafetch.v1.FrameworkNode"];
export type Frameworks = Schemas["fathom.api.datafetch.v1.ListFrameworksResponse"];
export type ImportedDocument = Schemas["fathom.api.retrieval.v1.ImportDocumentResponse"];
export type ImportedTable = Schemas["fathom.api.datafetch.v1.ImportTableResponse"];
export type Sheet = Schemas["fathom.api.datafetch.v1.Sheet"];
export type Conversation = Schemas["fathom.api.memory.v1.Conversation"];
export type Conversations = Schemas["fathom.api.memory.v1.ListConversationsResponse"];
export type Fact = Schemas["fathom.api.memory.v1.Fact"];
export type Facts = Schemas["fathom.api.memory.v1.ListFactsResponse"];
export type Turns = Schemas["fathom.api.memory.v1.ListTurnsResponse"];
export type Answer = Schemas["fathom.api.planner.v1.Answer"];
export type Clarification = Schemas["fathom.api.planner.v1.Clarification"];
export type CodeRecord = Schemas["fathom.api.planner.v1.CodeRecord"];
export type Compacted = Schemas["fathom.api.planner.v1.Compacted"];
export type FigureRef = Schemas["fathom.api.planner.v1.Figure"];
export type Finding = Schemas["fathom.api.planner.v1.Finding"];
export type Material = Schemas["fathom.api.planner.v1.Material"];
export type Reading = Schemas["fathom.api.planner.v1.Reading"];
export type Remembered = Schemas["fathom.api.planner.v1.Remembered"];
export type RunEvent = Schemas["fathom.api.planner.v1.RunEvent"];
export type RunFinished = Schemas["fathom.api.planner.v1.RunFinished"];
export type RunRecord = Schemas["fathom.api.planner.v1.GetRunResponse"];
export type RunSummary = Schemas["fathom.api.planner.v1.RunSummary"];
export type RunWaiting = Schemas["fathom.api.planner.v1.RunWaiting"];
export type Sampled = Schemas["fathom.api.planner.v1.Sampled"];
export type Slot = Schemas["fathom.api.planner.v1.Slot"];
export type Stage = Schemas["fathom.api.planner.v1.StageNote"];
export type StopReason = RunFinished["stop_reason"];
export type SubQuery = Schemas["fathom.api.planner.v1.SubQuery"];
export type TodoItem = Schemas["fathom.api.planner.v1.TodoItem"];
export type ToolCall = Schemas["fathom.api.policy.v1.ToolCall"];
export type ToolCallStarted = Schemas["fathom.api.planner.v1.ToolCallStarted"];
export type ToolResult = Schemas["fathom.api.planner.v1.ToolResult"];
export type Model = Schemas["fathom.api.policy.v1.Model"];
// `default` stands beside the contract's own members, in a form that the generator cannot join.
export type Models = Schemas["fathom.api.policy.v1.ListModelsResponse"] & { default: string };
