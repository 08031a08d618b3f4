-- Slots: sets of indexes as hexadecimal digits, the first of slots 0 to 3 with slot 0 as its lowest bit. NULL where the
-- semaphore is not slotted. A semaphore has those that its live permits hold.
ALTER TABLE lockhouse_semaphore ADD COLUMN slots text COLLATE "C";

ALTER TABLE lockhouse_permit ADD COLUMN slots text COLLATE "C";
