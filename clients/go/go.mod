module github.com/lockhouse/lockhouse/clients/go

go 1.23
