module github.com/oncelog/oncelog/fuzz/fusedisk

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/oncelog/oncelog v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/tidwall/gjson v1.10.2 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	github.com/tidwall/tinylru v1.1.0 // indirect
	github.com/tidwall/wal v1.2.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/oncelog/oncelog => ../..
