"""May this worker use these servers: what they say of themselves, and the judgement."""
