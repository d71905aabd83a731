//! Sets on a real file system: how they appear, how they do not, and what dies in between.

#[cfg(test)]
mod append;
#[cfg(test)]
mod attempts;
#[cfg(test)]
mod child;
#[cfg(test)]
mod count_records;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod finish;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod inputs;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod rewrite;
#[cfg(test)]
mod shuffle;
#[cfg(test)]
mod sidecars;
#[cfg(test)]
mod staging;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod support;
#[cfg(test)]
mod target;
#[cfg(test)]
mod writer;
