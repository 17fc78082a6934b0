"""Ranking of answers by several contestants to the same questions: models, versions, competitors and references.

Every two answers to a question are judged by the reward service in both orders; strengths with intervals follow from
the wins, and the judge's grades are held against those of people.
"""
