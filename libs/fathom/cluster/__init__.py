"""The cluster as the command line sees it: training jobs submitted and followed, a release examined.

``api`` speaks to the API server, ``rayjob`` fills the release's template, ``following`` watches a job to its end,
``pending`` says why one waits, ``checks`` what is wrong with a release. Needs the extra ``cluster``.
"""
