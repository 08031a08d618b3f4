//! The console's login, by its own form.

use lockhouse::Secret;
use serde_json::{Value, json};

use super::chromium::Chromium;
use super::{Site, TRY_ALL};
use crate::access::Guarded;

/// A page that shows the console in a frame and uses its form: with a wrong token, with the right one, and logs out.
const DRIVE: &str = r"<!doctype html><link rel=icon href=data:,><body><script type=module>
  const frame = document.createElement('iframe');
  const loaded = new Promise(resolve => { frame.onload = resolve; });
  frame.src = '/console';
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument, byId = id => page.getElementById(id);
  const until = async holds => {
    while (!holds()) await new Promise(resolve => setTimeout(resolve, 20));
  };
  const logIn = async (token, holds) => {
    await until(() => !byId('login').hidden);
    byId('token').value = token;
    byId('login').requestSubmit();
    await until(holds);
    return JSON.stringify({
      state: byId('state').textContent,
      rows: [...byId('rows').rows].map(row => row.cells[0].textContent),
      kept: [document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), byId('token').value],
    });
  };
  const calls = [
    ['wrong', () => logIn('WRONG', () => byId('state').className === 'bad')],
    ['right', () => logIn('RIGHT', () => byId('rows').rows.length > 0)],
    ['out', async () => {
      byId('logout').click();
      await until(() => !byId('login').hidden && byId('rows').rows.length === 0);
      return 'out';
    }],
  ];
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consoles_form_logs_in_and_keeps_no_token() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let guarded = Guarded::start().await;
    guarded.define("a", 1).await;
    let reader = guarded.token("reader", &["read:*"]).await;
    let wrong = Secret::random().unwrap();
    let drive = DRIVE.replace("RIGHT", reader.reveal());
    let drive = drive.replace("WRONG", wrong.reveal());
    let pages = vec![
        ("/page", format!("{drive} {TRY_ALL}</script>")),
        (
            "/console",
            include_str!("../../../src/console.html").to_owned(),
        ),
    ];
    let mut site = Site::with(pages, guarded.server.address).await;
    let _browser = chromium.open(&format!("http://127.0.0.1:{}/page", site.port));
    let outcomes = site.outcomes().await;
    let outcome = |name: &str| -> Value {
        let text = outcomes[name].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{outcomes}"))
    };
    let wrong = &outcome("wrong")["state"];
    let expected = "the token is not known; check it, or ask an administrator for a new one";
    assert_eq!(wrong, expected);
    assert_eq!(outcome("wrong")["rows"], json!([]));
    let right = outcome("right");
    assert_eq!(right["rows"], json!(["a"]));
    // The cookie is there, and no script sees it.
    let kept = json!(["", r#"{"logged-in":"yes"}"#, "{}", ""]);
    assert_eq!(right["kept"], kept);
    assert_eq!(outcomes["out"], "out");
}
