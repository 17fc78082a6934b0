"""Parts of the reader of users' tables: headers, numbers and days as people write them, workbooks."""
