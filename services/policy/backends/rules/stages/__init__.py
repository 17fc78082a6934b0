"""The reference policy in the stages of a workflow."""
