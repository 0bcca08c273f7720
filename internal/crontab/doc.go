// Package crontab reckons the times of schedules.
//
// A spec has five fields (minute, hour, day of month, month, day of week) or
// six, with seconds in front, in the syntax of github.com/robfig/cron/v3; or it
// is a descriptor: @yearly, @annually, @monthly, @weekly, @daily, @midnight,
// @hourly or "@every" with a duration such as 90s or 1h30m. The time zone is a
// member of its own: TZ= in the spec is refused. Zones are those of the system,
// or else those built into the program.
//
// # The clocks change
//
// A time of day that is left out when clocks go forward is left out here too. One
// that comes twice when they go back counts once, the first time, unless the
// field of the hour is "*" (or "?"): such a schedule follows the time that
// passes, and goes on in the repeated hour.
//
// # @every
//
// Its times are the multiples of the interval since 1970, UTC, whatever the
// zone: any two nodes, now or after a restart, reckon the same ones. "@every 5m"
// is at :00, :05 and so on.
//
// # Cost
//
// Next looks at most five years ahead. Specs are bounded in length. Latest needs
// a bounded number of steps, however long nobody has looked.
//
// Schedules are immutable and safe for concurrent use. Times are milliseconds
// since 1970; 0 stands for never.
package crontab
