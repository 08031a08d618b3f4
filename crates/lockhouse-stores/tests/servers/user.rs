//! Users of a database, who may do less than its administrator.

use crate::database::{Database, Server};

pub(crate) struct User<'a> {
    database: &'a Database,
    name: String,
    password: &'a str,
}

impl<'a> User<'a> {
    /// A user who may do `rights` on the tables that there are, and has to say `password` unless it
    /// is empty.
    pub(crate) async fn with_password(
        database: &'a Database,
        rights: &str,
        password: &'a str,
    ) -> Self {
        let name = format!("u{:08x}", fastrand::u32(..));
        let quoted = password.replace('\'', "''");
        let create = match database.server {
            Server::MySql | Server::MariaDb => format!(
                "CREATE USER '{name}'@'%' IDENTIFIED BY '{quoted}'; \
                 GRANT {rights} ON {}.* TO '{name}'@'%'",
                database.name()
            ),
            Server::Postgres => format!(
                "CREATE ROLE {name} LOGIN PASSWORD '{quoted}'; \
                 GRANT {rights} ON ALL TABLES IN SCHEMA public TO {name}"
            ),
        };
        let mut session = database.session().await;
        session.run(&create).await;
        if database.server == Server::Postgres && !password.is_empty() {
            // The server's settings ask the members of this group for their passwords.
            let _ = session.try_run("CREATE ROLE with_password").await;
            session.run(&format!("GRANT with_password TO {name}")).await;
        }
        Self {
            database,
            name,
            password,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self, parameters: &str) -> String {
        let encoded = self.password.bytes().map(|byte| format!("%{byte:02x}"));
        let mut user = self.name.clone();
        if !self.password.is_empty() {
            user = user + ":" + &encoded.collect::<String>();
        }
        self.database
            .url(&user, self.database.address(), parameters)
    }

    pub(crate) async fn remove(self) {
        let drop = match self.database.server {
            Server::MySql | Server::MariaDb => format!("DROP USER '{}'@'%'", self.name),
            Server::Postgres => format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name),
        };
        self.database.session().await.run(&drop).await;
    }
}
