//! A session of somebody else on a server, who may do anything.

use sqlx::{ColumnIndex, Connection as _, Decode, MySqlConnection, PgConnection, Row};

/// A connection to a server, with its driver's own settings.
pub(crate) enum Session {
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

impl Session {
    pub(crate) async fn open(url: &str) -> Self {
        if url.starts_with("postgres") {
            Session::Postgres(PgConnection::connect(url).await.unwrap())
        } else {
            Session::MySql(MySqlConnection::connect(url).await.unwrap())
        }
    }

    /// Does `statements`, if it may.
    pub(crate) async fn try_run(&mut self, statements: &str) -> Result<(), sqlx::Error> {
        let statements = sqlx::raw_sql(statements);
        match self {
            Session::MySql(session) => statements.execute(session).await.map(|_| ()),
            Session::Postgres(session) => statements.execute(session).await.map(|_| ()),
        }
    }

    /// Does `statements`.
    pub(crate) async fn run(&mut self, statements: &str) {
        self.try_run(statements).await.unwrap();
    }

    /// The first column of what `query` asks for, NULL as an empty text.
    pub(crate) async fn texts(&mut self, query: &str) -> Vec<String> {
        let query = sqlx::raw_sql(query);
        match self {
            Session::MySql(session) => firsts(&query.fetch_all(session).await.unwrap()),
            Session::Postgres(session) => firsts(&query.fetch_all(session).await.unwrap()),
        }
    }

    /// The one text that `query` asks for.
    pub(crate) async fn text(&mut self, query: &str) -> String {
        let mut texts = self.texts(query).await;
        assert_eq!(texts.len(), 1, "{query}");
        texts.pop().unwrap()
    }

    /// The one number that `query` asks for.
    pub(crate) async fn number(&mut self, query: &str) -> u64 {
        self.text(query).await.parse().unwrap()
    }
}

fn firsts<R: Row>(rows: &[R]) -> Vec<String>
where
    usize: ColumnIndex<R>,
    for<'r> Option<&'r str>: Decode<'r, R::Database>,
{
    let first = |row: &R| {
        let text: Option<&str> = row.try_get_unchecked(0).unwrap();
        text.unwrap_or_default().to_owned()
    };
    rows.iter().map(first).collect()
}
