"""The whole worker on virtual time: real flow, real scripts, made-up servers, one seed."""
