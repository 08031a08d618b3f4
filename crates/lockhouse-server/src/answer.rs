//! The body of an answer on its way to its caller.
//!
//! It is sent in chunks, so that a caller that does not read makes the server buffer no more than
//! the connection's buffers. Sending takes at most a minute.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, Version};
use axum::response::IntoResponse;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use lockhouse::Code;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::connections::{Connection, OpenCall};
use crate::failure::Failure;
use crate::shares::Listing;

/// The longest answer that may be under way on any number of connections.
const SHORT: u64 = 64 * 1024;

const CHUNK: usize = 16 * 1024;

/// How long a caller may take to read an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Answer {
    body: Body,
    /// The rest that is not sent yet.
    chunk: Bytes,
    _call: OpenCall,
    _place: Option<OwnedSemaphorePermit>,
    _listing: Option<Listing>,
    _deadline: Option<Deadline>,
}

/// Marks an answer that is in the program's memory anyway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Static;

/// Ends the connection at the deadline, unless it is dropped before.
struct Deadline(AbortHandle);

/// `answer` to `call` on `connection`. Refuses too many long answers at once.
pub(crate) fn answer(
    answer: Response<Body>,
    call: OpenCall,
    connection: &Arc<Connection>,
    version: Version,
) -> Response<Answer> {
    let is_long = answer.body().size_hint().lower() > SHORT;
    let is_static = answer.extensions().get::<Static>().is_some();
    let takes_memory = is_long && !is_static;
    let place = takes_memory.then(|| connection.long_answer()).flatten();
    let mut answer = match &place {
        None if takes_memory => {
            let detail = "too many long answers are on their way; try again later";
            Failure::new(Code::Overloaded, detail).into_response()
        }
        _ => answer,
    };
    // By HTTP/1.1, an unread short answer stops all writing, which the socket notices.
    let has_deadline = is_long || version == Version::HTTP_2;
    let deadline = has_deadline.then(|| Deadline::of(Arc::clone(connection)));
    let listing = answer.extensions_mut().remove();
    answer.map(|body| Answer {
        body,
        chunk: Bytes::new(),
        _call: call,
        _place: place,
        _listing: listing,
        _deadline: deadline,
    })
}

impl Deadline {
    fn of(connection: Arc<Connection>) -> Self {
        let late = tokio::spawn(async move {
            sleep(READ_TIMEOUT).await;
            connection.end();
        });
        Self(late.abort_handle())
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.chunk.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.chunk = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let most = self.chunk.len().min(CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.chunk.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunk.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.body.size_hint();
        let chunk = self.chunk.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + chunk);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + chunk);
        }
        hint
    }
}
