// Package dashboard opens the dashboard of a cluster of real processes in headless Chromium:
// every page in light and dark, wide and narrow, actions, keys, data full of HTML, and the
// death of the leader while a page is open.
//
// The tests are skipped where no Chromium is installed. OSQUEUE_SCREENSHOTS=DIR keeps a
// picture of each page.
package dashboard
