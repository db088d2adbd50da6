//! The only module that uses SQLite.

#[cfg(feature = "sqlite")]
mod real {
    use std::path::Path;

    use rusqlite::types::Value as Stored;
    use rusqlite::{Connection, params_from_iter};

    use crate::output::Failure;
    use plan_ledger::{Error, ErrorKind};

    use crate::commands::export::value::Value;

    /// A database that is being written.
    #[derive(Debug)]
    pub(crate) struct Database(Connection);

    impl Database {
        pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
            let database = Self(Connection::open(path).map_err(failed)?);
            // The file is temporary and is removed after any failure, so it needs no journal and no
            // syncs.
            database.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
            Ok(database)
        }

        pub(crate) fn run(&self, script: &str) -> Result<(), Failure> {
            self.0.execute_batch(script).map_err(failed)
        }

        pub(crate) fn row(&self, statement: &str, values: &[Value]) -> Result<(), Failure> {
            let stored = |value: &Value| match value {
                Value::Null => Stored::Null,
                Value::Number(number) => Stored::Integer(*number),
                Value::Text(text) => Stored::Text(text.clone()),
            };
            let mut prepared = self.0.prepare_cached(statement).map_err(failed)?;
            prepared.execute(params_from_iter(values.iter().map(stored))).map_err(failed)?;
            Ok(())
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` gives")]
    fn failed(error: rusqlite::Error) -> Failure {
        Failure::Ledger(Error::new(ErrorKind::Io, format!("cannot write the database: {error}")))
    }
}

#[cfg(not(feature = "sqlite"))]
mod real {
    use std::path::Path;

    use crate::output::Failure;

    use crate::commands::export::value::Value;

    /// A program that was built without SQLite.
    #[derive(Debug)]
    pub(crate) enum Database {}

    impl Database {
        pub(crate) fn create(_: &Path) -> Result<Self, Failure> {
            Err(crate::protocol::failure::left_out::LeftOut::SQLITE.failure("--format sqlite"))
        }

        pub(crate) fn run(&self, _: &str) -> Result<(), Failure> {
            match *self {}
        }

        pub(crate) fn row(&self, _: &str, _: &[Value]) -> Result<(), Failure> {
            match *self {}
        }
    }
}

pub(crate) use real::Database;
