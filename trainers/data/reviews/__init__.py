"""Items for people's queues from files and runs, and what people decided as rows that trainings and rankings read."""
