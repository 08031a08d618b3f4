//! The kinds of clusters.

/// A kind of cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Group Replication in which every node takes writes.
    MultiPrimary,
    /// Group Replication in which one node takes writes.
    SinglePrimary,
    /// MariaDB with Galera.
    Galera,
}

impl Topology {
    /// Its name in `scripts/services`.
    pub fn name(self) -> &'static str {
        match self {
            Topology::MultiPrimary => "multi-primary",
            Topology::SinglePrimary => "single-primary",
            Topology::Galera => "galera",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::MultiPrimary, Self::SinglePrimary, Self::Galera];
        all.into_iter().find(|topology| topology.name() == name)
    }
}
