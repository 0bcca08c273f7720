// Package crontab computes the times of schedules.
//
// A spec has five fields (minute, hour, day of month, month, day of week) as in cron(5), or
// six, with seconds in front; or it is a descriptor: @yearly, @annually, @monthly, @weekly,
// @daily, @midnight, @hourly or "@every" with a duration such as 90s or 1h30m. In addition to
// cron(5), "?" is "*", and "5/10" is "5-59/10". The time zone is a
// separate field: TZ= in the spec is refused. Zones come from the system, or else from
// the copy that is built into the program.
//
// If both day fields are restricted, a day needs to be in one of them. A field that begins
// with "*", also "*/2", does not restrict: then the day must be in both.
//
// # The clocks change
//
// The rules are those of Vixie cron. A spec whose second, minute or hour begins with "*" is
// wild: it follows the clocks, so it has no times in a skipped hour, and those of a repeated
// hour twice. All other specs have fixed times. If the clocks skip fixed times when they go
// forward, the schedule has one time right after the change, for all of them; cron runs the
// job once for each. In a repeated hour fixed times count once, the first time. A change
// forward by three hours or more, or back by more than three, is a new clock: it skips or
// repeats fixed times like others.
//
// Times that changes of the clocks leave out count as missed, as those that pass while no
// leader can fire, unless the schedule runs in every hour.
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
