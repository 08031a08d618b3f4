//! The gate as a tower layer.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use lockhouse_gate::http::{FenceLayer, FenceService};
use lockhouse_gate::{Fence, Gate, MemoryGate, Refused};
use tokio::time::{sleep, timeout};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

const SOON: Duration = Duration::from_secs(20);

type Journal = Arc<Mutex<Vec<String>>>;
type Writes = BoxCloneService<Request<String>, Response<String>, Infallible>;

/// Notes the fence of each write, some time after it passed.
fn journal() -> (Journal, FenceService<Writes, MemoryGate>) {
    let written = Journal::default();
    let notes = Arc::clone(&written);
    let write = service_fn(move |request: Request<String>| {
        let notes = Arc::clone(&notes);
        async move {
            let pause = request.body().parse().unwrap_or(0);
            sleep(Duration::from_millis(pause)).await;
            let fence = request.headers()["lockhouse-fence"].to_str().unwrap();
            notes.lock().unwrap().push(fence.to_owned());
            Ok::<_, Infallible>(Response::new("written".to_owned()))
        }
    });
    let layer = FenceLayer::new("reports", MemoryGate::default());
    (written, layer.layer(BoxCloneService::new(write)))
}

fn write(fence: &str, pause_ms: u64) -> Request<String> {
    let request = Request::put("/").header("lockhouse-fence", fence);
    request.body(pause_ms.to_string()).unwrap()
}

#[tokio::test]
async fn a_stale_fence_is_answered_412_and_never_reaches_the_service() {
    let (written, service) = journal();
    for (fence, status) in [
        ("reports;0;7", 200),
        ("reports;0;7", 200),
        ("reports;0;9", 200),
        ("reports;0;8", 412),
        ("reports;1;8", 200),
        ("reports;0;9", 200),
    ] {
        let answer = service.clone().oneshot(write(fence, 0)).await.unwrap();
        assert_eq!(answer.status(), status, "{fence}");
        let is_refused = answer.status() == 412;
        assert_eq!(
            answer.body().contains("\"code\":\"stale_fence\""),
            is_refused
        );
        if is_refused {
            assert_eq!(answer.headers()["content-type"], "application/problem+json");
        }
    }
    assert_eq!(written.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn a_request_without_a_good_fence_is_refused() {
    let (written, service) = journal();
    let none = Request::put("/").body(String::new()).unwrap();
    let answer = service.clone().oneshot(none).await.unwrap();
    assert_eq!(answer.status(), 428);
    let twice = Request::put("/")
        .header("lockhouse-fence", "reports;0;7")
        .header("lockhouse-fence", "reports;1;7");
    let twice = twice.body(String::new()).unwrap();
    let answer = service.clone().oneshot(twice).await.unwrap();
    assert_eq!(answer.status(), 400);
    for fence in ["7", "reports;7", "other;0;7", "reports;0;", "reports;0;-7"] {
        let answer = service.clone().oneshot(write(fence, 0)).await.unwrap();
        assert_eq!(answer.status(), 400, "{fence}");
    }
    assert!(written.lock().unwrap().is_empty());
}

/// Between its pass and its answer.
#[tokio::test]
async fn a_slow_writer_is_not_overtaken() {
    let (written, service) = journal();
    let slow = tokio::spawn(service.clone().oneshot(write("reports;0;7", 300)));
    sleep(Duration::from_millis(50)).await;
    let other = service.clone().oneshot(write("reports;1;1", 0)).await;
    assert_eq!(other.unwrap().status(), 200, "another slot does not wait");
    let next = service.clone().oneshot(write("reports;0;8", 0)).await;
    assert_eq!(next.unwrap().status(), 200);
    assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    let written = written.lock().unwrap().clone();
    assert_eq!(written, ["reports;1;1", "reports;0;7", "reports;0;8"]);
}

#[tokio::test]
async fn an_aborted_request_lets_the_next_one_pass() {
    let (_, service) = journal();
    let aborted = tokio::spawn(service.clone().oneshot(write("reports;0;7", 60_000)));
    sleep(Duration::from_millis(50)).await;
    aborted.abort();
    let next = timeout(SOON, service.oneshot(write("reports;0;8", 0)));
    assert_eq!(next.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_older_is_written_after_the_highest_fence() {
    let (written, service) = journal();
    let mut random = 7_u64;
    let writers: Vec<_> = (0..400)
        .map(|at| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let fence = format!("reports;0;{}", 1 + at / 4 + (random >> 33) % 20);
            let service = service.clone();
            tokio::spawn(async move {
                service
                    .oneshot(write(&fence, at % 3))
                    .await
                    .unwrap()
                    .status()
            })
        })
        .collect();
    let mut passed = 0;
    for writer in writers {
        passed += usize::from(writer.await.unwrap() == 200);
    }
    let last = service.oneshot(write("reports;0;1000", 0)).await.unwrap();
    assert_eq!(last.status(), 200, "the highest always passes");
    let written = written.lock().unwrap();
    let fences = written
        .iter()
        .map(|fence| fence.parse::<Fence>().unwrap().fence);
    assert!(fences.is_sorted(), "older after newer: {written:?}");
    assert_eq!(written.len(), passed + 1);
}

/// A gate on something that is out of reach, from the first call on or from the second.
struct Broken {
    at_the_end: bool,
}

#[derive(Debug)]
struct OutOfReach;

impl fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of reach")
    }
}

impl std::error::Error for OutOfReach {}

impl Gate for Broken {
    type Pass = ();
    type Error = OutOfReach;

    async fn pass(&self, _: &Fence) -> Result<(), Refused<OutOfReach>> {
        match self.at_the_end {
            true => Ok(()),
            false => Err(Refused::Failed(OutOfReach)),
        }
    }

    async fn end(&self, (): ()) -> Result<(), OutOfReach> {
        Err(OutOfReach)
    }
}

#[tokio::test]
async fn a_gate_that_fails_is_answered_503() {
    for at_the_end in [false, true] {
        let write_nothing = service_fn(async |_: Request<String>| {
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let service = FenceLayer::new("reports", Broken { at_the_end }).layer(write_nothing);
        let answer = service.oneshot(write("reports;0;7", 0)).await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.body().contains("may have been done"), at_the_end);
    }
}
