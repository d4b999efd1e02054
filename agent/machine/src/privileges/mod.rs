//! What the agent may do: which capabilities it keeps after its start (`table`, `capability`), giving up the
//! others in every thread (`threads`), the system calls that are refused from then on (`filter`), and what
//! the kernel says that the threads may do (`held`).

mod capability;
mod error;
mod filter;
mod held;
mod table;
mod threads;

pub use capability::{Capability, CapabilitySet};
pub use error::PrivilegesError;
pub use filter::{Mounts, refuse, refused};
pub use held::Held;
pub use table::{NEEDS, Need, START, Use, explain, kept};
pub use threads::keep_only;
