// bailey-toml: turns the TOML on standard input into the flat form that reader.h describes.  Run by bailey, with no
// environment and nothing but that file and a pipe; it opens nothing and needs no right.  A program of its own so that
// bailey itself needs no C++ library, and so that whatever a file does to the parser stays in here.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <toml++/toml.h>
#include <unistd.h>

namespace
{
constexpr size_t max_file = 1 << 20;
constexpr size_t max_key = 256;
constexpr int max_depth = 16;

std::string answer;

void put(std::string_view s)
{
	answer.append(s.substr(0, s.find('\0')));
	answer.push_back('\0');
}

void put_error(const toml::source_position &at, std::string_view message)
{
	std::string text;

	// what the parser says may quote the file, whose bytes must not reach a terminal
	for (char c : message.substr(0, 500))
		text.push_back(c >= 0x20 && c < 0x7f ? c : '?');
	put("e");
	put(std::to_string(at.line));
	put(std::to_string(at.column));
	put(text);
}

// A part of a key that isn't a bare key stays in quotes: "a.b" is not a and b.
std::string key_part(std::string_view part)
{
	std::string quoted = "\"";
	bool bare = !part.empty();

	for (char c : part) {
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || c == '_' || c == '-';

		bare = bare && plain;
		quoted.push_back(
			static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' ? '?' : c);
	}
	return bare ? std::string(part) : quoted + "\"";
}

void put_item(
	std::string_view key, std::string_view type, const toml::node &node, std::string_view value)
{
	put("k");
	put(key);
	put(type);
	put(std::to_string(node.source().begin.line));
	put(value);
}

void put_float(const std::string &key, const toml::node &node, double v)
{
	char digits[64];
	auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;

	put_item(key, "float", node, std::string_view(digits, static_cast<size_t>(end - digits)));
}

bool walk(const toml::table &table, const std::string &prefix, int depth);

bool put_node(const std::string &key, const toml::node &node, int depth)
{
	if (key.size() > max_key || depth > max_depth) {
		put_error(node.source().begin, "the key is too long or too deep");
		return false;
	}
	if (auto table = node.as_table()) {
		put_item(key, "table", node, "");
		return walk(*table, key + ".", depth + 1);
	}
	if (auto boolean = node.as_boolean())
		put_item(key, "boolean", node, boolean->get() ? "true" : "false");
	else if (auto integer = node.as_integer())
		put_item(key, "integer", node, std::to_string(integer->get()));
	else if (auto real = node.as_floating_point())
		put_float(key, node, real->get());
	else if (auto string = node.as_string();
		string && string->get().find('\0') != std::string::npos)
		put_item(key, "other", node, "");
	else if (string)
		put_item(key, "string", node, string->get());
	else
		put_item(key, "other", node, "");
	return true;
}

bool walk(const toml::table &table, const std::string &prefix, int depth)
{
	for (auto &&[key, node] : table)
		if (!put_node(prefix + key_part(key.str()), node, depth))
			return false;
	return true;
}

bool read_input(std::string &text)
{
	char chunk[16384];
	ssize_t n;

	while ((n = read(0, chunk, sizeof chunk)) > 0) {
		text.append(chunk, static_cast<size_t>(n));
		if (text.size() > max_file)
			return false;
	}
	return n == 0;
}

bool write_answer()
{
	for (size_t done = 0; done < answer.size();) {
		ssize_t n = write(1, answer.data() + done, answer.size() - done);

		if (n <= 0)
			return false;
		done += static_cast<size_t>(n);
	}
	return true;
}
} // namespace

int main()
{
	std::string text;

	if (!read_input(text))
		return 1;
	put("bailey-toml 1");
	toml::parse_result result = toml::parse(text);
	if (!result)
		put_error(result.error().source().begin, result.error().description());
	else if (walk(result.table(), "", 0))
		put(".");
	return write_answer() ? 0 : 1;
}
