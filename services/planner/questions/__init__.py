"""What a question asks for, before any tool is called: scene, mode, need of evidence, chart, and the whole question."""
