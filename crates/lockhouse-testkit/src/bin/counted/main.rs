//! `counted WORKLOAD`: work that is the same in every run, whose instructions callgrind counts. Prints how many pairs of an
//! acquire and a release it was. `tests/counts` builds and runs it.

mod callgrind;
mod deciding;
mod engine;
mod work;

use engine::Among;
use work::Slip;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(workload), None) = (arguments.next(), arguments.next()) else {
        panic!("usage: counted WORKLOAD");
    };
    let pairs = match workload.as_str() {
        "decide-1" => deciding::pairs(1, 1, 500, Slip::None),
        "decide-1-twice" => deciding::pairs(1, 1, 500, Slip::DecidesTwice),
        "decide-1-last" => deciding::last_permits(500, false),
        "decide-1-last-slotted" => deciding::last_permits(500, true),
        "decide-256" => deciding::pairs(256, 1, 2, Slip::None),
        "decide-1-wide" => deciding::pairs(1, 64, 20, Slip::None),
        "decide-256-wide" => deciding::pairs(256, 64, 1, Slip::None),
        "engine-1" => engine::clients(1, 64, 512),
        "engine-64" => engine::clients(64, 64, 1_024),
        "engine-64-for-8" => engine::clients(64, 8, 1_024),
        "engine-64-slotted" => engine::slotted_clients(64, 1_024),
        "engine-empty" => engine::one_client(Among::none(), Slip::None),
        "engine-crowded" => engine::one_client(Among::many(), Slip::None),
        "engine-crowded-summing" => engine::one_client(Among::many(), Slip::SumsHeld),
        _ => panic!("no workload is called {workload:?}"),
    };
    println!("{pairs}");
}
