"""One compiled fit on any `Task`: batches, losses, optimizer, schedules, sharding, memory."""
