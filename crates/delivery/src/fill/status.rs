//! What an answer's status says of whether it may be kept.

/// Whether an answer of this status says something of the request rather than of the object, or of how it was asked: how large,
/// how often, by what way, in which form. Only the requests that wait for such an answer get it: it is not kept, and does not
/// replace a good one (RFC 9110 §15.5, §15.6; RFC 6585; RFC 8470; RFC 5842 §7.2).
pub(super) const fn is_of_request(status: u16) -> bool {
    matches!(
        status,
        400 | 405..=409 | 411..=417 | 421..=426 | 428 | 429 | 431 | 501 | 505 | 506 | 508 | 510 | 511
    )
}

/// Whether an answer of this status may be kept where nothing says for how long (RFC 9110 §15.1). Of those that the standard
/// names 405, 414 and 501 are of the request.
pub(super) const fn may_be_kept_untold(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 410)
}

/// Whether this cache meets the requirements of the status, as `must-understand` asks (RFC 9111 §5.2.2.3).
pub(super) const fn is_understood(status: u16) -> bool {
    may_be_kept_untold(status) || matches!(status, 302 | 303 | 307 | 401 | 403 | 451)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_of_the_request_may_be_kept() {
        for status in [400, 408, 411, 413, 414, 416, 417, 421, 425, 426, 429, 431, 501, 505, 508, 511] {
            assert!(is_of_request(status), "{status}");
        }
        for status in 100..1000 {
            assert!(
                !(is_of_request(status) && (may_be_kept_untold(status) || is_understood(status))),
                "{status}"
            );
        }
        for status in [200, 301, 302, 304, 401, 403, 404, 410, 451, 500, 502, 503, 504] {
            assert!(!is_of_request(status), "{status}");
        }
    }
}
