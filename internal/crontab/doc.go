// Package crontab computes the times of schedules.
//
// A spec has five fields (minute, hour, day of month, month, day of week) or
// six, with seconds in front, in the syntax of github.com/robfig/cron/v3; or it
// is a descriptor: @yearly, @annually, @monthly, @weekly, @daily, @midnight,
// @hourly or "@every" with a duration such as 90s or 1h30m. The time zone is a
// separate field: TZ= in the spec is refused. Zones come from the system, or else from
// the copy that is built into the program.
//
// # The clocks change
//
// If the clocks skip a time of day when they go forward, the schedule skips it too. If
// a time of day comes twice when they go back, only the first one counts, unless the
// field of the hour is "*" (or "?"): such a schedule continues in the repeated hour.
//
// # @every
//
// Its times are the multiples of the interval since 1970 UTC, in every zone, so all
// nodes compute the same times, before and after a restart. "@every 5m"
// is at :00, :05 and so on.
//
// # Cost
//
// Next looks at most five years ahead. Specs are bounded in length. Latest takes
// a bounded number of steps, however long ago the last call was.
//
// Schedules are immutable and safe for concurrent use. Times are milliseconds
// since 1970; 0 means never.
package crontab
