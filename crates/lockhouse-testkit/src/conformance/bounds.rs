//! Every bound is checked, with an error that names field and bound.

use std::time::Duration;

use lockhouse::{Code, Error};

use super::steps::{grant, in_use};
use crate::place::Place;

/// The client checks each bound, and its error names the field.
pub async fn every_bound_is_checked_with_its_field(place: &Place) {
    let lockhouse = place.client().await;
    lockhouse.define("s", 1).await.unwrap();
    let (long, note) = ("x".repeat(256), "x".repeat(1025));
    let over = 1_u32 << 31;
    let days_367 = Duration::from_secs(367 * 86_400);
    let ask = |id: &str| lockhouse.request_with_id(id).wait(Duration::ZERO);
    let refused: Vec<(&str, &str, Result<(), Error>)> = vec![
        (
            "semaphore",
            "empty",
            lockhouse.define("", 1).await.map(drop),
        ),
        (
            "semaphore",
            "255",
            lockhouse.define(&long, 1).await.map(drop),
        ),
        (
            "semaphore",
            "white space",
            lockhouse.define(" s", 1).await.map(drop),
        ),
        (
            "semaphore",
            "control",
            lockhouse.define("a\nb", 1).await.map(drop),
        ),
        (
            "capacity",
            "2147483647",
            lockhouse.define("s", -1).await.map(drop),
        ),
        (
            "capacity",
            "2147483647",
            lockhouse.define("s", over).await.map(drop),
        ),
        (
            "note",
            "1024",
            lockhouse.define("s", 1).note(&note).await.map(drop),
        ),
        (
            "changed_by",
            "255",
            lockhouse.define("s", 1).changed_by(&long).await.map(drop),
        ),
        (
            "external_id",
            "empty",
            ask("").permits("s", 1).acquire().await.map(drop),
        ),
        (
            "external_id",
            "255",
            ask(&long).permits("s", 1).acquire().await.map(drop),
        ),
        (
            "owner",
            "255",
            ask("a")
                .permits("s", 1)
                .owner(&long)
                .acquire()
                .await
                .map(drop),
        ),
        (
            "count",
            "2147483647",
            ask("a").permits("s", 0).acquire().await.map(drop),
        ),
        (
            "count",
            "2147483647",
            ask("a").permits("s", over).acquire().await.map(drop),
        ),
        ("permits", "64", ask("a").acquire().await.map(drop)),
        (
            "permits",
            "twice",
            ask("a")
                .permits("s", 1)
                .permits("s", 1)
                .acquire()
                .await
                .map(drop),
        ),
        (
            "ttl_ms",
            "366 days",
            ask("a")
                .permits("s", 1)
                .ttl(days_367)
                .acquire()
                .await
                .map(drop),
        ),
        (
            "ttl_ms",
            "366 days",
            ask("a")
                .permits("s", 1)
                .ttl(Duration::ZERO)
                .acquire()
                .await
                .map(drop),
        ),
        (
            "ttl_ms",
            "366 days",
            lockhouse.renew("a", Some(days_367)).await.map(drop),
        ),
        (
            "limit",
            "1000",
            lockhouse.semaphores(None, 1001).await.map(drop),
        ),
        (
            "limit",
            "1000",
            lockhouse.semaphores(None, 0).await.map(drop),
        ),
    ];
    for (field, bound, result) in refused {
        let Err(error) = result else {
            panic!("{field} ({bound}) was not checked")
        };
        assert_eq!(error.code(), Code::InvalidRequest, "{error}");
        let Error::Invalid(invalid) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(invalid.field(), field, "{error}");
        assert!(
            error.to_string().contains(bound),
            "\"{error}\" should name the bound {bound}"
        );
    }
    assert_eq!(in_use(&lockhouse, "s").await, 0);
}

/// Every value within the bounds is accepted, also by the store.
pub async fn the_largest_numbers_and_longest_names_fit(place: &Place) {
    let lockhouse = place.client().await;
    let most = i32::MAX as u32;
    let long = format!("{}é🦀", "x".repeat(249));
    assert_eq!(long.len(), 255);
    let note = "n".repeat(1024);
    lockhouse.define(&long, 1).await.unwrap();
    let define = lockhouse.define(&long, most).note(&note).changed_by(&long);
    assert_eq!(define.await.unwrap().semaphore.capacity.value(), most);
    let year = Duration::from_secs(366 * 86_400);
    let ask = lockhouse
        .request_with_id(&long)
        .permits(&long, most)
        .owner(&long)
        .ttl(year);
    let permit = ask.acquire().await.unwrap();
    assert_eq!(permit.external_id().as_str(), long);
    let request = lockhouse.find(&long).await.unwrap();
    assert_eq!(request.owner.unwrap().as_str(), long);
    assert_eq!(request.permits[0].count.value(), most);
    assert_eq!(request.ttl.unwrap().as_duration(), year);
    assert_eq!(
        lockhouse.history(&long, 1).await.unwrap()[0]
            .note
            .as_ref()
            .unwrap()
            .as_str(),
        note
    );
    permit.release().await.unwrap();
    grant(&lockhouse, "again", &[(&long, most)]).await.unwrap();
}
