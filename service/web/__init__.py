"""The pages: server-rendered HTML for people, thin over what HTTP's routes and operators do."""
