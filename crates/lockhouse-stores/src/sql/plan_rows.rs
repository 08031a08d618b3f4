//! The rows on which tests look at plans, and the statements that read them.

use lockhouse_core::store::{Cursor, Page};
use lockhouse_core::{Capacity, Idle, NamePrefix, Owner, SemaphoreName, Template, Timestamp};

use super::dialect::{Dialect, Names};
use super::read::page_of;
use super::script::list;
use crate::walk::Walk;

/// An INSERT of 2000 semaphores of each of two templates: three are too small, four too large, as many were resized by hand,
/// and two were last used at `day_ago`.
pub(crate) fn templated(now: &str, day_ago: &str) -> String {
    let semaphores = list((1..=4000).map(|i| {
        let (capacity, is_resized) = match i {
            1..=3 => (4, 0),
            4..=7 => (6, 0),
            8..=14 => (i, 1),
            _ => (5, 0),
        };
        let used = match i {
            15..=16 => day_ago,
            _ => now,
        };
        let template = if i <= 2000 { "c/*" } else { "d/*" };
        format!("({i},'{i:06}',{capacity},0,1,{now},{now},'{template}',{is_resized},{used})")
    }));
    let columns = "id,name,capacity,in_use,fence,created_at,updated_at,template,is_resized,used_at";
    format!("INSERT INTO lockhouse_semaphore ({columns}) VALUES {semaphores}")
}

/// The first of those templates, and how many of its semaphores are too small, too large and idle.
pub(crate) fn template() -> (Template, [usize; 3]) {
    let template = Template {
        pattern: "c/*".parse().unwrap(),
        capacity: Capacity::new(5).unwrap(),
        idle: Idle::from_ms(1).unwrap(),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    (template, [3, 4, 2])
}

/// How many rows a page may cost, one of requests that hold permits of several semaphores, and three requests by their ids.
#[derive(Clone, Copy)]
pub(crate) struct Most {
    pub(crate) of_a_page: u64,
    pub(crate) of_several: u64,
    pub(crate) of_requests: u64,
}

const LIVE: &str = "ACQUIRED";

/// INSERTs: of 2000 live requests four hold permits of the second semaphore alone, and every second is of one owner. 30 more hold
/// permits of two semaphores, three of them of the second. As many have ended.
pub(crate) fn held(now: &str) -> Vec<String> {
    let rows = |row: &dyn Fn(usize) -> String| list((1..=2000).map(row));
    let owner = |i: usize| {
        if i.is_multiple_of(2) {
            "'many'"
        } else {
            "NULL"
        }
    };
    let request = |i: usize| {
        let only = if i.is_multiple_of(500) { 2 } else { 1 };
        format!("({i},'l{i}',{},'{LIVE}',NULL,{now},NULL,{only})", owner(i))
    };
    let ended = |i: usize| {
        let id = i + 5000;
        let only = 1 + i % 2;
        format!(
            "({id},'o{id}',{},'RELEASED','released',{now},{now},{only})",
            owner(i)
        )
    };
    let of_several =
        (3001..=3030).map(|i| format!("({i},'l{i}',{},'{LIVE}',NULL,{now},NULL,0)", owner(i)));
    let permits_of_several = (3001..=3030).flat_map(|i| {
        let other = if i % 10 == 0 { 2 } else { 3 };
        [1, other].map(|semaphore| format!("({i},{semaphore},1,{i})"))
    });
    let semaphores = rows(&|i| format!("({i},'n/{i:06}',9999,0,9999,{now},{now})"));
    let permits = |from: usize| {
        rows(&|i| {
            format!(
                "({i}+{from},{},1,{i}+{from})",
                if i.is_multiple_of(500) { 2 } else { 1 }
            )
        })
    };
    let request_columns =
        "id,external_id,owner,state,end_reason,created_at,released_at,only_semaphore_id";
    let permit_columns = "permit_request_id,semaphore_id,count,fence";
    let semaphore_columns = "id,name,capacity,in_use,fence,created_at,updated_at";
    let tables = [
        ("lockhouse_semaphore", semaphore_columns, semaphores),
        ("lockhouse_permit_request", request_columns, rows(&request)),
        ("lockhouse_permit_request", request_columns, rows(&ended)),
        (
            "lockhouse_permit_request",
            request_columns,
            list(of_several),
        ),
        ("lockhouse_permit", permit_columns, permits(0)),
        ("lockhouse_permit", permit_columns, permits(5000)),
        ("lockhouse_permit", permit_columns, list(permits_of_several)),
    ];
    let insert = |(table, columns, rows)| format!("INSERT INTO {table} ({columns}) VALUES {rows}");
    tables.map(insert).into()
}

/// The statements that read pages of three rows, how many entries of the index each finds, and how
/// many rows reading them may cost.
pub(crate) fn pages<D: Dialect>(most: Most) -> Vec<(String, usize, u64)> {
    let many = Owner::parse("many").unwrap();
    let nobody = Owner::parse("nobody").unwrap();
    let at = |group, row| Some(Cursor { group, row });
    let walks = [
        (None, None, None, vec![4]),
        (None, None, at(1, 900), vec![4, 4]),
        (None, None, at(2, 2000), vec![0, 0]),
        (None, Some(1), at(1, 900), vec![4]),
        (None, Some(2), None, vec![30, 4]),
        (None, Some(2), at(0, 3020), vec![10, 4]),
        (None, Some(2), at(2, 1500), vec![1]),
        (None, Some(4), None, vec![30, 0]),
        (Some(&many), None, None, vec![4]),
        (Some(&many), None, at(1, 900), vec![4, 4]),
        (Some(&many), Some(1), at(1, 900), vec![4]),
        (Some(&many), Some(2), None, vec![15, 4]),
        (Some(&nobody), Some(2), None, vec![0, 0]),
    ];
    let stretches = walks.into_iter().flat_map(|(owner, on, after, found)| {
        let walk = Walk::new(on, &Page { after, limit: 3 });
        assert_eq!(walk.stretches().len(), found.len());
        let stretches = walk.stretches().iter().zip(found);
        let stretches = stretches.map(|(stretch, found)| {
            // Those of several are looked up one by one.
            let most = if stretch.holds.is_some() {
                most.of_several
            } else {
                most.of_a_page
            };
            (D::stretch(owner, stretch), found, most)
        });
        stretches.collect::<Vec<_>>()
    });
    let names = |prefix: &str, after: Option<&str>| {
        let names = Names::Existing(Some(NamePrefix::parse(prefix).unwrap()));
        let after = after.map(|name| SemaphoreName::parse(name).unwrap());
        page_of::<D>(&names, &Page { after, limit: 3 })
            .text()
            .to_owned()
    };
    let rows = D::live(&[1, 2, 3]).text().to_owned();
    let others = [
        (rows, 3, most.of_requests),
        (names("", None), 3, most.of_a_page),
        (names("n/0010", None), 3, most.of_a_page),
        (names("n/0010", Some("n/001090")), 3, most.of_a_page),
        (names("n/0010", Some("n/001098")), 1, most.of_a_page),
        (names("m", None), 0, most.of_a_page),
        (names("o", None), 0, most.of_a_page),
    ];
    stretches.chain(others).collect()
}
