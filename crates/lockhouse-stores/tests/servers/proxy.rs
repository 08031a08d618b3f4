//! A wire between a store and its server that can be cut at a chosen statement.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The fault of the wire once it sees a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Cuts before the server gets it.
    CutBefore,
    /// Lets the server have it, and cuts when it answers.
    CutAfter,
    /// Lets nothing through any more, and says nothing; for a while not even that the client has gone.
    Freeze,
}

/// A wire to one server.
pub(crate) struct Proxy {
    address: String,
    armed: Armed,
}

type Armed = Arc<Mutex<Option<(&'static str, Fault)>>>;

impl Proxy {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let armed = Armed::default();
        let (server, on) = (server.to_owned(), Arc::clone(&armed));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, on) = (client.unwrap(), Arc::clone(&on));
                let server = TcpStream::connect(&server).unwrap();
                thread::spawn(move || carry(&client, &server, &on));
            }
        });
        Self { address, armed }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Does `fault`, once, when a packet has `statement` in it.
    pub(crate) fn at(&self, statement: &'static str, fault: Fault) {
        *self.armed.lock().unwrap() = Some((statement, fault));
    }

    /// Whether it was done.
    pub(crate) fn is_done(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

fn carry(client: &TcpStream, server: &TcpStream, armed: &Armed) {
    let muted = Arc::new(Mutex::new(false));
    let answers = thread::spawn({
        let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let muted = Arc::clone(&muted);
        move || carry_answers(&server, &client, &muted)
    });
    let (mut from, mut to) = (client, server);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let packet = &buffer[..length];
        let seen = |statement: &str| {
            packet
                .windows(statement.len())
                .any(|w| w == statement.as_bytes())
        };
        let fault = armed
            .lock()
            .unwrap()
            .take_if(|(statement, _)| seen(statement));
        match fault {
            Some((_, Fault::CutBefore)) => break,
            Some((_, Fault::Freeze)) => {
                *muted.lock().unwrap() = true;
                while let Ok(1..) = from.read(&mut buffer) {}
                thread::sleep(Duration::from_secs(20));
                break;
            }
            Some((_, Fault::CutAfter)) => *muted.lock().unwrap() = true,
            None => {}
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    answers.join().unwrap();
}

fn carry_answers(mut server: &TcpStream, mut client: &TcpStream, muted: &Mutex<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        if *muted.lock().unwrap() || client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
