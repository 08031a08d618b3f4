-- Access tokens, without their secrets: a token is known by the SHA-256 of it.
CREATE TABLE lockhouse_token (
  name text COLLATE "C" PRIMARY KEY,
  digest text COLLATE "C" NOT NULL,
  grants text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz
);
