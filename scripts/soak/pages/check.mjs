// Checks pages of reports in a browser: node check.mjs TOOLS PAGE...
//
// TOOLS is the directory with node_modules. Each page is shown light, dark and printed, narrow
// and wide. It must not ask for anything, break its own policy or write an error; axe-core must
// find nothing against WCAG 2.2 AA; nothing may be wider than the window, and no text of a
// picture outside of it or over another one. Under a policy that takes its styles away, all of
// its text must still be there.

import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

const [tools, ...files] = process.argv.slice(2)
const load = createRequire(path.resolve(tools, 'package.json'))
const { chromium } = load('playwright-core')
const axe = await readFile(load.resolve('axe-core/axe.min.js'), 'utf8')

const views = [
  { name: 'light 360', width: 360, colorScheme: 'light' },
  { name: 'light 1600', width: 1600, colorScheme: 'light' },
  { name: 'dark 360', width: 360, colorScheme: 'dark' },
  { name: 'dark 1600', width: 1600, colorScheme: 'dark' },
  { name: 'print', width: 794, colorScheme: 'light', media: 'print' },
]
const levels = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

// What a server such as Jenkins' allows: no styles at all.
const strict = { 'content-security-policy': "sandbox allow-scripts; default-src 'none'; script-src 'none'" }

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
})

// A viewer is a window with one view. All pages are shown in it, since opening it takes longer than
// a page. It collects what a page does that it must not do.
async function newViewer(view) {
  const context = await browser.newContext({
    viewport: { width: view.width, height: 900 }, colorScheme: view.colorScheme,
  })
  const page = await context.newPage()
  await page.emulateMedia({ media: view.media ?? 'screen', colorScheme: view.colorScheme })
  const viewer = { view, page, html: '', headers: {}, wrong: [] }
  const address = 'http://page.invalid/'
  await page.route('**/*', route => {
    if (route.request().url() === address) {
      return route.fulfill({ body: viewer.html, contentType: 'text/html; charset=utf-8', headers: viewer.headers })
    }
    viewer.wrong.push(`request: ${route.request().url()}`)
    return route.abort()
  })
  page.on('console', m => {
    if (m.type() === 'error' || m.type() === 'warning') viewer.wrong.push(`console: ${m.text()}`)
  })
  page.on('pageerror', e => viewer.wrong.push(`error: ${e.message}`))
  await page.exposeFunction('tareTell', what => viewer.wrong.push(what))
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', e =>
      window.tareTell(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`))
  })
  viewer.show = async (html, headers = {}) => {
    Object.assign(viewer, { html, headers, wrong: [] })
    await page.goto(address, { waitUntil: 'load' })
    return page
  }
  return viewer
}

// layout runs in the page: what is clipped, covered or too wide.
function layout() {
  const wrong = []
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) {
    wrong.push(`layout: the page is ${root.scrollWidth} pixels wide in a window of ${root.clientWidth}`)
  }
  const slack = 1.5
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect()
    if (frame.width === 0) continue
    const scale = frame.width / (svg.viewBox.baseVal.width || frame.width)
    const texts = [...svg.querySelectorAll('text')].map(t => ({ text: t.textContent, box: t.getBoundingClientRect() }))
    const name = svg.querySelector('title')?.textContent ?? 'bar'
    texts.forEach(({ text, box }, i) => {
      if (box.width === 0) return
      if (box.left < frame.left - slack || box.right > frame.right + slack ||
          box.top < frame.top - slack || box.bottom > frame.bottom + slack) {
        wrong.push(`layout: ${name}: "${text}" is cut off`)
      }
      for (const other of texts.slice(i + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left)
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top)
        // Boxes of letters are taller than the letters.
        if (across > slack && down > 4 * scale) wrong.push(`layout: ${name}: "${text}" and "${other.text}" overlap`)
      }
    })
  }
  return wrong
}

// look checks a page in one viewer.
async function look(html, viewer) {
  const page = await viewer.show(html)
  const wrong = viewer.wrong
  if (viewer.view.media !== 'print') {
    // What is folded is looked at too.
    await page.evaluate(() => { for (const d of document.querySelectorAll('details')) d.open = true })
  }
  wrong.push(...await page.evaluate(layout))
  await page.evaluate(axe)
  const found = await page.evaluate(tags =>
    window.axe.run(document, { runOnly: tags, preload: false, resultTypes: ['violations'] }), levels)
  for (const v of found.violations) {
    const first = v.nodes[0]
    wrong.push(`axe: ${v.id} (${v.impact}): ${v.help}; ${v.nodes.length} ×, first ${first.html.slice(0, 200)}: ` +
      first.failureSummary.replace(/\s+/g, ' '))
  }
  return wrong
}

// text is what a page says, in the order of its elements.
async function text(html, viewer, headers) {
  const page = await viewer.show(html, headers)
  return page.evaluate(() => {
    const hidden = [...document.body.querySelectorAll('*')].filter(e =>
      e.textContent && !e.closest('details') && !e.closest('title,desc') && !e.checkVisibility()).length
    return { words: document.body.textContent, hidden, styled: getComputedStyle(document.body).maxWidth !== 'none' }
  })
}

// bare checks a page that is not allowed to have styles.
async function bare(html, viewer) {
  const [with_, without] = [await text(html, viewer), await text(html, viewer, strict)]
  const wrong = []
  if (!with_.styled) wrong.push('bare: the page has no styles even where they are allowed')
  if (without.styled) wrong.push('bare: the policy takes no styles away, so that this checks nothing')
  if (without.hidden > 0) wrong.push(`bare: without styles ${without.hidden} elements are hidden`)
  if (with_.words !== without.words) wrong.push('bare: without styles the page says something else')
  return wrong
}

// canFail shows that each check finds what it is there for.
async function canFail() {
  const bad = '<!DOCTYPE html><html><head><title>x</title>' +
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src http:">` +
    '<script>document.title = 1</script></head><body>' +
    '<img src="http://elsewhere.invalid/x.png"><p><font color="#eeeeee">pale</font></p>' +
    '<table width="3000"><tr><td>wide</td></tr></table>' +
    '<svg viewBox="0 0 100 20" width="100" height="20"><text x="90" y="15">cut off</text>' +
    '<text x="88" y="15">covered</text></svg></body></html>'
  const found = (await look(bad, await newViewer(views[0]))).join('\n')
  for (const kind of ['request:', 'console:', 'policy:', 'axe: color-contrast', 'axe: image-alt', 'pixels wide', 'cut off', 'overlap']) {
    if (!found.includes(kind)) throw new Error(`a bad page is not seen to be so: no "${kind}" in\n${found}`)
  }
}

await canFail()
const viewers = await Promise.all(views.map(newViewer))
const wide = await newViewer(views[1])
let failed = 0
for (const file of files) {
  const html = await readFile(file, 'utf8')
  const said = new Map() // what is wrong → the views in which it is
  // All views at once: one alone leaves the CPUs idle.
  const found = await Promise.all([...viewers.map(w => look(html, w)), bare(html, wide)])
  found.forEach((wrong, i) => {
    for (const what of wrong) said.set(what, [...said.get(what) ?? [], views[i]?.name ?? 'without styles'])
  })
  for (const [what, where] of said) console.log(`${file}: ${where.join(', ')}: ${what}`)
  failed += said.size
}
await browser.close()
console.log(`${files.length} pages in ${views.length} views: ${failed === 0 ? 'nothing wrong' : `${failed} things wrong`}`)
process.exitCode = failed === 0 ? 0 : 1
