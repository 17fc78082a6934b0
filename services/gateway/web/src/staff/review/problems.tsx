// What the gateway said against something.
import type { Problem } from "../../base/api";

export function Problems({ problem }: { problem: Problem | null }) {
  if (!problem) return null;
  return <p className="chip bad" role="alert">{[problem.culprit, problem.message].filter(Boolean).join(": ")}</p>;
}
