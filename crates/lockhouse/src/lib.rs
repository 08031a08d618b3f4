//! A distributed counting semaphore on the database you already run.
