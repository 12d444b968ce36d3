// Pins the FerretDB source that build.sh compiles; go.sum holds its checksum.
module onionskin.test/ferretdb

go 1.24.3

require github.com/FerretDB/FerretDB v1.24.2
