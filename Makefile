# What .ci/run does not need is here: longer runs and what writes documents.

.PHONY: test race mutants crash crash-long bench

test:
	go test ./...

race:
	go test -race ./...
