package core

// streamsMax bounds the streams of one node. Each takes about 100 KiB.
const streamsMax = 2048
