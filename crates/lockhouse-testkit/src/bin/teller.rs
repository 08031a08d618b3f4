//! Pays in a transaction of its own, in a process that a test stops or kills.
//!
//! `teller URL held|finish EXTERNAL_ID`
//!
//! Begins, writes a row of the table `payment`, runs the statement, and says `done`. Commits when it reads a line, and says
//! `committed`.

use std::io::stdin;

use lockhouse::caller::{finish_sql, held_sql};
use lockhouse_testkit::database::{Database, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, verb, id] = &arguments[..] else {
        panic!("teller URL held|finish EXTERNAL_ID");
    };
    let mut database = Database::open(url).await;
    let sql = match verb.as_str() {
        "held" => held_sql(database.dialect().await),
        "finish" => finish_sql(database.dialect().await),
        other => panic!("no statement is called {other}"),
    };
    database.begin().await;
    let pay = format!("INSERT INTO payment VALUES ('{id}')");
    database.run(&pay).await;
    database.execute(sql, &[Value::Text(id)]).await.unwrap();
    println!("done");
    stdin().read_line(&mut String::new()).unwrap();
    database.run("COMMIT").await;
    println!("committed");
}
