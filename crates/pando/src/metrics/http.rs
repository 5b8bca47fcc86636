//! As much of HTTP/1.1 as a scrape needs: one request for each connection, without a body.

use httparse::{EMPTY_HEADER, Error, Request, Status};

/// A request's head may have so many bytes.
pub const HEAD_MAX: usize = 4096;
const HEADERS_MAX: usize = 32;
const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is to be done about the bytes that have come so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// The head is not complete.
    More,
    /// A request for the metrics.
    Metrics,
    /// A request that is refused.
    Refused(Refusal),
}

/// Why a request gets no metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Malformed,
    NoSuchPath,
    WrongMethod,
    TooSlow,
    TooLarge,
    /// The process ends, or a shard does not let its counts be read.
    Unavailable,
}

/// Judges the head of a request.
pub fn judge(head: &[u8]) -> Judged {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let path = path.split_once('?').map_or(path, |(path, _)| path);
            match (request.method, path) {
                (Some("GET"), "/metrics") => Judged::Metrics,
                (Some("GET"), _) => Judged::Refused(Refusal::NoSuchPath),
                _ => Judged::Refused(Refusal::WrongMethod),
            }
        }
        Ok(Status::Partial) if head.len() < HEAD_MAX => Judged::More,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => Judged::Refused(Refusal::TooLarge),
        Err(_) => Judged::Refused(Refusal::Malformed),
    }
}

/// The bytes of an answer, which ends the connection.
pub fn answer(metrics: Result<String, Refusal>) -> Vec<u8> {
    let (status, kind, more, body) = match metrics {
        Ok(metrics) => ("200 OK", OPEN_METRICS, "", metrics),
        Err(refusal) => {
            let status = refusal.status();
            let allow = if refusal == Refusal::WrongMethod { "Allow: GET\r\n" } else { "" };
            (status, TEXT, allow, format!("{status}\n"))
        }
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Refusal {
    const fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::NoSuchPath => "404 Not Found",
            Self::WrongMethod => "405 Method Not Allowed",
            Self::TooSlow => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_gets_the_answer_that_is_its_due() {
        let large = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HEADERS_MAX + 1));
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Judged::Metrics),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Judged::Metrics),
            ("GET / HTTP/1.1\r\n\r\n", Judged::Refused(Refusal::NoSuchPath)),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Judged::Refused(Refusal::NoSuchPath)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Judged::Refused(Refusal::WrongMethod)),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Judged::Refused(Refusal::WrongMethod)),
            ("GET /metrics HTTP/1.1\r\nHost", Judged::More),
            ("", Judged::More),
            ("\u{16}\u{3}\u{1}\r\n\r\n", Judged::Refused(Refusal::Malformed)),
            ("GET /metrics\r\n\r\n", Judged::Refused(Refusal::Malformed)),
            (&large, Judged::Refused(Refusal::TooLarge)),
            (&many, Judged::Refused(Refusal::TooLarge)),
        ] {
            assert_eq!(judge(head.as_bytes()), expected, "{head:?}");
        }
    }
}
