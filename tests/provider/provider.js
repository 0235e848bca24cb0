'use strict';
// Stands for a model provider: an HTTP server that speaks Anthropic Messages (streamed or not) and OpenAI Responses
// (streamed).  It runs outside the sandbox and knows no project; what it answers comes from a script file.
//
//   node provider.js --listen unix:/path|127.0.0.1:PORT --script FILE [--log FILE]
//
// A script names steps.  Each says something, calls one tool or none, and picks the next step by what the tool really
// returned:
//   {"start": "test", "steps": {
//     "test": {"say": "..", "call": {"tool": "Bash", "input": {..}}, "next": [{"match": "(?<why>FAIL .*)", "go": "fix"}, {"go": "stop"}]},
//     "stop": {"say": "It failed: ${result}"}}}
// Named groups of a match stay known to later steps as ${name}; ${result} is the last tool's whole result.  A call with
// "custom": true passes its input as text (Codex's apply_patch).  The provider keeps no state: every request carries the
// whole conversation, and the script is walked again along it.
const fs = require('fs');
const http = require('http');

const MAX_BODY = 32 << 20; // a CLI's request with its tool descriptions has some 100 kB
const USAGE = 'usage: node provider.js --listen unix:/path|127.0.0.1:PORT --script FILE [--log FILE]';

function parseArguments(argv) {
	const options = {};
	for (let i = 0; i < argv.length; i += 2) {
		const name = argv[i].replace(/^--/, '');
		if (!['listen', 'script', 'log'].includes(name) || argv[i + 1] === undefined) {
			console.error(USAGE);
			process.exit(2);
		}
		options[name] = argv[i + 1];
	}
	if (!options.listen || !options.script) {
		console.error(USAGE);
		process.exit(2);
	}
	return options;
}

const options = parseArguments(process.argv.slice(2));
const script = JSON.parse(fs.readFileSync(options.script, 'utf8'));
checkScript(script);

function checkScript(s) {
	for (const [name, step] of Object.entries(s.steps)) {
		if (step.call && !(step.next && step.next.length))
			throw new Error(`script: step '${name}' calls a tool and has no next`);
		for (const n of step.next || [])
			if (!s.steps[n.go])
				throw new Error(`script: step '${name}' goes to '${n.go}', which does not exist`);
	}
	if (!s.steps[s.start])
		throw new Error(`script: the start '${s.start}' does not exist`);
}

function log(entry) {
	if (options.log)
		fs.appendFileSync(options.log, JSON.stringify(entry) + '\n');
}

const fill = (text, known) => text.replace(/\$\{(\w+)\}/g, (all, name) => (name in known ? known[name] : all));

// Walks the script along the tool results that the conversation holds, oldest first.
function walk(results) {
	const known = {};
	let name = script.start;
	for (const result of results) {
		const step = script.steps[name];
		if (!step.call)
			break;
		known.result = result;
		const next = step.next.find((n) => {
			const m = n.match === undefined ? {} : new RegExp(n.match).exec(result);
			Object.assign(known, m && m.groups);
			return m;
		});
		if (!next)
			return { name: 'none', say: `No step of the script fits this result: ${result}` };
		name = next.go;
	}
	const step = script.steps[name];
	return { name, say: step.say && fill(step.say, known), call: step.call };
}

// A result's text, whichever of the APIs' forms it comes in.
function textOf(content) {
	if (typeof content === 'string')
		return content;
	if (Array.isArray(content))
		return content.map((c) => c.text || '').join('');
	return JSON.stringify(content === undefined ? '' : content);
}

function* pieces(text) {
	for (let i = 0; i < text.length; i += 24)
		yield text.slice(i, i + 24);
}

function sendJson(res, status, object) {
	res.writeHead(status, { 'content-type': 'application/json' });
	res.end(JSON.stringify(object));
}

// --- Anthropic Messages ---

const anthropicResults = (body) => (body.messages || [])
	.flatMap((m) => (Array.isArray(m.content) ? m.content : []))
	.filter((c) => c.type === 'tool_result')
	.map((c) => textOf(c.content));

function anthropicMessage(id, model, step) {
	const content = [];
	if (step.say)
		content.push({ type: 'text', text: step.say });
	if (step.call)
		content.push({ type: 'tool_use', id: `toolu_${id}`, name: step.call.tool, input: step.call.input });
	return {
		id: `msg_${id}`, type: 'message', role: 'assistant', model, content,
		stop_reason: step.call ? 'tool_use' : 'end_turn', stop_sequence: null,
		usage: { input_tokens: 11, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
	};
}

function streamAnthropic(res, message) {
	const send = (type, fields) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
	res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
	send('message_start', { message: { ...message, content: [], stop_reason: null } });
	message.content.forEach((block, index) => {
		const isText = block.type === 'text';
		send('content_block_start', { index, content_block: isText ? { type: 'text', text: '' } : { ...block, input: {} } });
		for (const piece of pieces(isText ? block.text : JSON.stringify(block.input)))
			send('content_block_delta', {
				index,
				delta: isText ? { type: 'text_delta', text: piece } : { type: 'input_json_delta', partial_json: piece },
			});
		send('content_block_stop', { index });
	});
	send('message_delta', {
		delta: { stop_reason: message.stop_reason, stop_sequence: null },
		usage: { output_tokens: message.usage.output_tokens },
	});
	send('message_stop', {});
	res.end();
}

function answerAnthropic(res, id, body) {
	const message = anthropicMessage(id, body.model, pickStep(id, body, anthropicResults(body)));
	if (body.stream)
		streamAnthropic(res, message);
	else
		sendJson(res, 200, message);
}

// --- OpenAI Responses ---

const responsesResults = (body) => (Array.isArray(body.input) ? body.input : [])
	.filter((item) => item.type === 'function_call_output' || item.type === 'custom_tool_call_output')
	.map((item) => textOf(item.output));

function responsesItems(id, step) {
	const items = [];
	if (step.say)
		items.push({
			type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed',
			content: [{ type: 'output_text', text: step.say, annotations: [] }],
		});
	if (step.call && step.call.custom)
		items.push({
			type: 'custom_tool_call', id: `ctc_${id}`, call_id: `call_${id}`, status: 'completed',
			name: step.call.tool, input: step.call.input,
		});
	else if (step.call)
		items.push({
			type: 'function_call', id: `fc_${id}`, call_id: `call_${id}`, status: 'completed',
			name: step.call.tool, arguments: JSON.stringify(step.call.input),
		});
	return items;
}

function streamItem(send, item, index) {
	const at = { item_id: item.id, output_index: index };
	if (item.type === 'message') {
		const part = { ...at, content_index: 0 };
		send('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress', content: [] } });
		send('response.content_part.added', { ...part, part: { type: 'output_text', text: '', annotations: [] } });
		for (const delta of pieces(item.content[0].text))
			send('response.output_text.delta', { ...part, delta });
		send('response.output_text.done', { ...part, text: item.content[0].text });
		send('response.content_part.done', { ...part, part: item.content[0] });
	} else if (item.type === 'function_call') {
		send('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress', arguments: '' } });
		for (const delta of pieces(item.arguments))
			send('response.function_call_arguments.delta', { ...at, delta });
		send('response.function_call_arguments.done', { ...at, arguments: item.arguments });
	} else {
		send('response.output_item.added', { output_index: index, item });
	}
	send('response.output_item.done', { output_index: index, item });
}

function answerResponses(res, id, body) {
	const output = responsesItems(id, pickStep(id, body, responsesResults(body)));
	const response = { id: `resp_${id}`, object: 'response', created_at: 1700000000, model: body.model };
	const usage = {
		input_tokens: 11, input_tokens_details: { cached_tokens: 0 },
		output_tokens: 7, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 18,
	};
	let sequence_number = 0;
	const send = (type, fields) => res.write(
		`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...fields })}\n\n`);
	res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
	send('response.created', { response: { ...response, status: 'in_progress', output: [] } });
	output.forEach((item, index) => streamItem(send, item, index));
	send('response.completed', { response: { ...response, status: 'completed', output, usage } });
	res.end();
}

// --- the server ---

// Requests without tools are the CLIs' own side questions, such as a title for the conversation.
function pickStep(id, body, results) {
	const step = body.tools && body.tools.length ? walk(results) : { name: 'side', say: 'A task.' };
	log({ id, step: step.name, calls: step.call ? step.call.tool : null, last: results[results.length - 1] });
	return step;
}

function readBody(req, res, done) {
	const parts = [];
	let size = 0;
	req.on('data', (part) => {
		size += part.length;
		if (size > MAX_BODY)
			req.destroy();
		else
			parts.push(part);
	});
	req.on('end', () => {
		let body;
		try {
			body = JSON.parse(Buffer.concat(parts).toString('utf8') || '{}');
		} catch (e) {
			return sendJson(res, 400, { error: { type: 'invalid_request_error', message: 'the body is not JSON' } });
		}
		done(body);
	});
}

let requests = 0;
const server = http.createServer((req, res) => {
	const id = requests++;
	const path = req.url.split('?')[0];
	if (req.method === 'HEAD')
		return res.writeHead(200).end();
	readBody(req, res, (body) => {
		if (req.method === 'POST' && path.endsWith('/messages/count_tokens'))
			sendJson(res, 200, { input_tokens: 11 });
		else if (req.method === 'POST' && path.endsWith('/messages'))
			answerAnthropic(res, id, body);
		else if (req.method === 'POST' && path.endsWith('/responses') && body.stream)
			answerResponses(res, id, body);
		else
			sendJson(res, 404, { error: { type: 'not_found_error', message: `no route ${req.method} ${path}` } });
	});
});

const unix = /^unix:(\/.+)/.exec(options.listen);
const tcp = /^(127\.0\.0\.1):(\d+)$/.exec(options.listen);
if (!unix && !tcp) {
	console.error(USAGE);
	process.exit(2);
}
const where = unix ? { path: unix[1] } : { host: tcp[1], port: Number(tcp[2]) };
server.listen(where, () => console.log(`listening on ${unix ? unix[1] : server.address().port}`));
