"""Reading of a question before any tool is called: scene, mode, need of evidence, chart, and the whole question."""
