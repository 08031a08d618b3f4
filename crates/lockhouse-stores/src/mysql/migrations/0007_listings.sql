-- Listings read live requests in the order of this index, from where the page before ended.

ALTER TABLE lockhouse_permit_request
  ADD KEY walk (state, only_semaphore_id), ALGORITHM=INPLACE, LOCK=NONE;
