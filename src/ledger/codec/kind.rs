//! The kinds of records, by number and by name: those of the events (`crate::plan`), and notes.
//!
//! Invariant: a number is never reused with another meaning.

use crate::format::Codec;
use crate::plan::{Event, StepEvent, with_events};

macro_rules! kinds {
    ($($name:ident = $number:literal $text:ident $codec:ident;)*) => {
        /// The kind of a record. The numbers are on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the event of the same name")]
        pub enum Kind { $($name),* }

        impl Kind {
            /// All kinds, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on disk.
            #[must_use]
            pub fn number(self) -> u16 {
                match self { $(Self::$name => $number),* }
            }

            /// The kind with that number.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name in texts and JSON.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($text)),* }
            }

            /// The codec of its payload.
            #[must_use]
            pub fn codec(self) -> Codec {
                match self { $(Self::$name => Codec::$codec),* }
            }
        }
    };
}

macro_rules! define_kinds {
    (
        ledger { $(
            $(#[$doc:meta])* $number:literal $name:ident $variant:ident($payload:ty)
            $codec:ident $stream:ident;
        )* }
        step { $(
            $(#[$step_doc:meta])* $step_number:literal $step_name:ident
            $step_variant:ident($step_payload:ty);
        )* }
    ) => {
        kinds! {
            $($variant = $number $name $codec;)*
            $($step_variant = $step_number $step_name Bincode;)*
            RecoveryNote = 0x8001 recovery_note Json;
            RetentionNote = 0x8002 retention_note Json;
            BatchKey = 0x8003 batch_key Raw;
            SnapshotNote = 0x8004 snapshot_note Json;
            Gap = 0x8005 gap Json;
            Note = 0x8006 note Detached;
            Erasure = 0x8007 erasure Json;
            WriterNote = 0x8008 writer_note Json;
        }

        impl Kind {
            /// The kind of an event's record.
            #[must_use]
            pub fn of(event: &Event) -> Self {
                match event {
                    $(Event::$variant(_) => Self::$variant,)*
                    Event::Step(record) => match &record.event {
                        $(StepEvent::$step_variant(_) => Self::$step_variant,)*
                    },
                }
            }
        }
    };
}

with_events!(define_kinds);

impl Kind {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}
